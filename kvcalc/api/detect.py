"""This machine's GPUs as presets: `kvcalc gpus --detect`, and the name behind `--gpu auto`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kvcalc import resolve
from kvcalc.api.auto import auto_count
from kvcalc.api.machine import machine_text
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.base import Warn
from kvcalc.core.results.catalog import DetectedGpu, Listing
from kvcalc.core.units import MIB, cdiv, parse_count
from kvcalc.detect.match import Match, as_option, match, size_text
from kvcalc.detect.sources import Reading, read
from kvcalc.detect.visible import order_advice

#: Use below this share of the memory is the driver's own and a desktop's.
_IDLE_PERCENT = 1


def detected() -> Listing:
    """Every GPU that this machine's tools show, with the preset it is.

    Raises:
        KvcalcError: "unknown_gpu" if there is none, naming what was tried.
    """
    reading = read()
    chosen = reading.visible
    items = []
    for device in reading.devices:
        found = match(device, (resolve.app_dir(),))
        device, gpu, reason = found  # noqa: PLW2901 - with the system's memory, where shared
        if found.given_bytes is not None and reason is not None:
            reason += f"; --gpu-memory {as_option(found.given_bytes)}"
        seen = any(d.index == device.index for d in chosen.devices)
        items.append(DetectedGpu(
            device.index, device.name, None if gpu is None else gpu.id,
            device.memory_total_bytes, device.memory_used_bytes, device.free_bytes,
            None if gpu is None else gpu.memory_bytes, device.source, device.driver_version,
            seen if chosen.sure else None, reason,
        ))  # fmt: skip
    return Listing(name="gpus", items=tuple(items), warnings=_doubts(reading))


def machine_name(
    auto: str, keywords: Mapping[str, Any], options: Collection[str] = ()
) -> tuple[str, tuple[Warn, ...]]:
    """What `auto` stands for: "4xh100-sxm", or kinds joined by "+"; and what to tell of it.

    Args:
        auto: "auto", or "2xauto" for two of them.
        keywords: The command's: --gpus, or --tp times --pp times --dp, take so many of them.
        options: What the command takes, for the advice.

    Raises:
        KvcalcError: "unknown_gpu" for no GPU or one without a preset; "usage" for too many.
    """
    reading = read()
    devices, variables, sure = reading.visible
    told = " and ".join(variables)
    if not devices:
        raise KvcalcError(
            "unknown_gpu", f"--gpu auto: {told} leaves none of {len(reading.devices)} GPUs",
            "unset it, or name one with --gpu",
        )  # fmt: skip
    matches = [match(device, (resolve.app_dir(),)) for device in devices]
    ids = _presets(matches)
    if not sure:
        raise KvcalcError(
            "usage", f"--gpu auto: {told} counts unlike GPUs in an order of its own",
            f"{order_advice(devices[0].source)}; or say --gpu {ids[0]}",
        )  # fmt: skip
    named = auto_count(auto)
    asked = _wanted(keywords) if named is None else parse_count(named, "--gpu COUNTxauto")
    wanted = len(ids) if asked is None else asked
    _check(wanted, ids)
    warnings = (*_in_use(matches[:wanted], keywords, options), *_doubts(reading))
    if len(set(ids)) == 1 and named is None and asked is not None:
        return ids[0], warnings
    return machine_text(ids[:wanted]), warnings


def _presets(matches: Sequence[Match]) -> list[str]:
    """The preset of each device.

    Raises:
        KvcalcError: "unknown_gpu" for the first that has none.
    """
    known = [m.gpu.id for m in matches if m.gpu is not None]
    if len(known) == len(matches):
        return known
    found = next(m for m in matches if m.gpu is None)
    device, _, reason = found
    total, given = device.memory_total_bytes, found.given_bytes
    size = "" if total is None else f", {size_text(total)}"
    if given is not None:
        memory = as_option(given)
    elif device.installed:
        memory = "SIZE, which llama.cpp logs as recommendedMaxWorkingSetSize"
    else:
        memory = "SIZE, that of one slice" if device.divided else "SIZE"
    hint = f"where the command takes it, --gpu-memory {memory}; or a user preset with that alias"
    if known:  # a card beside a processor's own graphics
        hint = f"without it: --gpu {machine_text(known)}; or give it a user preset with that alias"
    raise KvcalcError(
        "unknown_gpu",
        f'--gpu auto: GPU {device.index} is "{device.name}"{size} by {device.source}: {reason}',
        hint,
    )


def _wanted(keywords: Mapping[str, Any]) -> int | None:
    """How many GPUs the options ask for; None where they leave it to the machine."""
    gpus = keywords.get("gpus")
    if gpus is not None:
        several = gpus if isinstance(gpus, (list, tuple)) else [gpus]
        return max(parse_count(n, "--gpus") for n in several)
    sizes = {k: keywords.get(k) for k in ("tp", "pp", "dp")}
    counts = {k: parse_count(v, f"--{k}") for k, v in sizes.items() if v is not None}
    if "tp" not in counts and all(n == 1 for n in counts.values()):
        return None
    return math.prod(counts.values())


def _check(wanted: int, ids: Sequence[str]) -> None:
    """Refuse more GPUs than there are, and some of several kinds.

    Raises:
        KvcalcError: "usage".
    """
    if wanted > len(ids):
        raise KvcalcError(
            "usage", f"--gpu auto: {wanted} GPUs of a machine that has {machine_text(ids)}",
            f"name the machine that you mean, like --gpu {wanted}x{ids[0]}",
        )  # fmt: skip
    if wanted < len(ids) and len(set(ids)) > 1:
        raise KvcalcError(
            "usage", f"--gpu auto: which {wanted} of {machine_text(ids)}?", "name it, like --gpu "
            f"{ids[0]}",
        )  # fmt: skip


def _in_use(
    matches: Sequence[Match], keywords: Mapping[str, Any], options: Collection[str]
) -> tuple[Warn, ...]:
    """What other programs hold, which is not subtracted: an engine decides by its own rule."""
    busy = [
        (device.index, device.memory_used_bytes)
        for device, _, _ in matches
        if device.memory_used_bytes
        and device.memory_used_bytes * 100 > _IDLE_PERCENT * (device.memory_total_bytes or 0)
    ]
    if not busy:
        return ()
    most = max(used for _, used in busy)
    names = ", ".join(str(index) for index, _ in busy)
    some = f"GPU {names} has" if len(busy) == 1 else f"GPUs {names} have up to"
    text = f"{some} {size_text(most)} in use now, which is not subtracted"
    planned = "reserve" in options  # a command that judges whether an engine would start
    if planned and keywords.get("reserve") is None:
        text += f"; --reserve {cdiv(most, MIB)}MiB leaves it alone"
    if planned and keywords.get("engine") in {None, "vllm"}:
        text += "; vllm does not start where less than its utilization of the total is free"
    return (Warn("gpu_memory_in_use", text),)


def _doubts(reading: Reading) -> tuple[Warn, ...]:
    found = [Warn("gpu_tool_failed", text) for text in reading.failures]
    chosen = reading.visible
    told = " and ".join(chosen.variables)
    if not chosen.sure:
        advice = order_advice(reading.devices[0].source)
        text = f"{told} counts unlike GPUs in an order of its own: {advice}"
        found.append(Warn("gpu_order_unknown", text))
    elif len(chosen.devices) < len(reading.devices):
        text = f"{told} leaves {len(chosen.devices)} of {len(reading.devices)} GPUs"
        found.append(Warn("gpus_hidden", text))
    return tuple(found)
