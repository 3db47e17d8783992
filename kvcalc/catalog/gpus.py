"""GPU presets: what a program sees of each accelerator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvcalc.catalog.files import Entry
from kvcalc.catalog.lookup import Found, everything, ids, lookup


class Gpu(NamedTuple):
    """One device. Memory in bytes, bandwidth in bytes/s, dense FLOP/s by dtype; None is unknown.

    `memory_bytes` is what a program can allocate before anything runs, not the size on the box;
    `low_bytes` and `high_bytes` are the readings' range over drivers and settings.
    """

    id: str
    name: str
    vendor: str
    memory_bytes: int
    basis: str
    low_bytes: int
    high_bytes: int
    bandwidth: int | None
    dense_flops: dict[str, int]
    gpus_per_node: int | None
    unified_memory: bool
    confidence: str | None
    #: "preset" or "user preset", and its file.
    source: str
    file: str
    #: The whole table of the file, for `gpus show`.
    entry: Entry


def load_gpu(name: str, user_dirs: Iterable[str] = ()) -> Gpu:
    """The GPU called `name`: an id, an alias, or a spelling such as "RTX 4090" or "H100 80GB".

    Args:
        name: Case, `_`, `-` and blanks do not matter.
        user_dirs: Folders whose gpus/*.toml win, after those of KVCALC_PRESETS.

    Raises:
        KvcalcError: "unknown_gpu" with the nearest ids; "invalid_preset" or "unreadable_input"
            for a file of the user.
    """
    return gpu_of(lookup("gpus", name, user_dirs))


def gpu_ids(user_dirs: Iterable[str] = ()) -> list[str]:
    """Ids of all GPU presets, sorted."""
    return ids("gpus", user_dirs)


def load_all_gpus(user_dirs: Iterable[str] = ()) -> list[Gpu]:
    """All GPUs, sorted by id."""
    return [gpu_of(found) for found in everything("gpus", user_dirs)]


def gpu_of(found: Found) -> Gpu:
    """The GPU that a preset's table describes."""
    e = found.entry
    return Gpu(
        id=e["id"],
        name=e.get("name") or e["id"],
        vendor=e.get("vendor", ""),
        memory_bytes=e["memory_bytes"],
        basis=e.get("basis", "measured"),
        low_bytes=e.get("low_bytes") or e["memory_bytes"],
        high_bytes=e.get("high_bytes") or e["memory_bytes"],
        bandwidth=e.get("bandwidth_bytes_per_second"),
        dense_flops=e.get("dense_flops", {}),
        gpus_per_node=e.get("gpus_per_node"),
        unified_memory=e.get("unified_memory", False),
        confidence=e.get("source", {}).get("confidence"),
        source=found.source,
        file=found.file,
        entry=e,
    )
