"""kvcalc.models, kvcalc.gpus, kvcalc.dtypes: what the catalog holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvcalc import resolve
from kvcalc.core.dtypes import DTYPES, bits_per_element, dtype, kv_bytes, storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import plain
from kvcalc.core.results.catalog import (
    DtypeItem,
    EntryResult,
    GpuItem,
    Listing,
    ModelItem,
    WeightItem,
)
from kvcalc.core.shard import Parallel
from kvcalc.core.size import attention_of, layer_pattern, profile
from kvcalc.core.units import parse_bytes, shown

#: What `attention` of a model may be, as `attention_of` says it.
ATTENTION = ("mha", "gqa", "mqa", "mla", "full", "mixed", "none")

if TYPE_CHECKING:
    from kvcalc.core.weight_formats import WeightFormat


def models(
    name: str | None = None, *, family: str | None = None, attention: str | None = None
) -> Listing | EntryResult:
    """Every model of the catalog, or one in full.

    Args:
        name: A preset's id or alias; None lists them.
        family: Only models whose family or id holds this word.
        attention: Only models of this kind: mha gqa mqa mla mixed none.

    Raises:
        KvcalcError: "unknown_model"; "usage"; "invalid_preset" for a user's file.
    """
    if name is not None:
        return _model_entry(_word(name, "models"))
    if attention is not None and attention not in ATTENTION:
        raise KvcalcError(
            "usage", f"--attention {shown(attention)} is no kind", f"one of {', '.join(ATTENTION)}"
        )
    from kvcalc.catalog.lookup import everything  # noqa: PLC0415 - only lists read all
    from kvcalc.catalog.models import load_all_models  # noqa: PLC0415

    folders = (resolve.app_dir(),)
    families = {f.entry["id"]: f.entry.get("family") for f in everything("models", folders)}
    rows = [_model_item(m, families.get(m.id)) for m in load_all_models(folders)]
    if family is not None:
        word = str(family).lower()
        rows = [r for r in rows if word in f"{r.family} {r.id}".lower()]
    if attention is not None:
        rows = [r for r in rows if r.attention == attention]
    return Listing(name="models", items=tuple(rows))


def _word(name: object, command: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise KvcalcError("usage", f"{shown(name)} is no name", f"all names: kvcalc {command}")
    return name


def _model_item(model: Model, family: str | None) -> ModelItem:
    s = storage("bf16", model=model.dtype)
    most = model.max_context_tokens
    return ModelItem(
        id=model.id,
        name=model.name,
        family=family,
        parameters=model.parameters or model.stored_parameters,
        bytes_per_token=model.token_bytes(s),
        state_bytes_per_request=model.fixed_bytes(s),
        max_context_tokens=most,
        bytes_at_max_context=None if most is None else model.bytes_at(most, s),
        attention=attention_of(model),
        layers=_kinds(model),
        confidence=model.confidence,
        source=model.source,
    )


def _kinds(model: Model) -> str:
    """How many layers hold which caches: "10 full, 52 window"."""
    words = {"sliding_window": "window", "latent": "MLA"}
    counts: dict[str, int] = {}
    for group in model.groups:
        cache = group.cache
        word = getattr(cache, "variant", None) or words.get(cache.kind, cache.kind)
        counts[word] = counts.get(word, 0) + len(group.layers)
    return ", ".join(f"{n} {word}" for word, n in counts.items())


def _model_entry(name: str) -> EntryResult:
    from kvcalc.catalog.models import load_model, model_entry  # noqa: PLC0415

    raw: dict[str, Any] = {}
    if resolve.is_source(name):
        model = resolve.model_of(name)
    else:
        folders = (resolve.app_dir(),)
        raw, model = model_entry(name, folders).entry, load_model(name, folders)
    s = storage("bf16", model=model.dtype)
    p = profile(model, s, Parallel())
    groups = [
        {**plain(group), "from": _from_of(raw, group.kind, group.window_tokens)}
        for group in p.layers
    ]
    entry = {
        **plain(p.info),
        "hub": list(model.hub),
        "aliases": list(raw.get("aliases", [])),
        "family": raw.get("family"),
        "architecture": model.architecture,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "dtype": model.dtype,
        "pattern": layer_pattern(model),
        "pattern_from": raw.get("pattern_from"),
        "bytes_per_token": p.token_bytes,
        "state_bytes_per_request": p.fixed_bytes,
        "layer_groups": groups,
        "stored_parameters": model.stored_parameters,
        "weights": plain(model.weights) if model.weights else None,
        "sources": raw.get("source", {}),
    }
    return EntryResult(name="models", entry=entry)


def _from_of(raw: dict[str, object], kind: str, window: int | None) -> dict[str, str]:
    """The config fields behind a group's numbers, as the preset names them."""
    layers = raw.get("layers")
    for table in layers if isinstance(layers, list) else []:
        bend = table.get("window_tokens", table.get("chunk_tokens"))
        if table.get("kind") == kind and bend == window:
            return dict(table.get("from", {}))
    return {}


def gpus(
    name: str | None = None,
    *,
    vendor: str | None = None,
    min_memory: str | None = None,
    detect: bool = False,
) -> Listing | EntryResult:
    """Every accelerator of the catalog, or one in full; with `detect` those of this machine.

    Raises:
        KvcalcError: "unknown_gpu"; "invalid_preset" for a user's file; "usage" for `detect` with
            anything else.
    """
    if detect or str(name).strip().lower() == "auto":
        if (detect and name is not None) or vendor is not None or min_memory is not None:
            raise KvcalcError(
                "usage", "--detect lists this machine's GPUs, all of them",
                "leave the other words and options out",
            )  # fmt: skip
        from kvcalc.api.detect import detected  # noqa: PLC0415 - starts programs

        return detected()
    from kvcalc.catalog.gpus import Gpu, load_all_gpus, load_gpu  # noqa: PLC0415

    folders = (resolve.app_dir(),)
    if name is not None:
        gpu = load_gpu(_word(name, "gpus"), folders)
        entry = {**gpu.entry, "file": gpu.file, "source_kind": gpu.source}
        return EntryResult(name="gpus", entry=entry)

    def item(g: Gpu) -> GpuItem:
        bf16 = g.dense_flops.get("bf16", g.dense_flops.get("fp16"))
        return GpuItem(
            g.id, g.name, g.vendor, g.memory_bytes, g.basis, g.bandwidth, bf16,
            g.dense_flops.get("fp8"), g.confidence, g.source,
        )  # fmt: skip

    rows = [item(g) for g in load_all_gpus(folders)]
    if vendor is not None:
        rows = [r for r in rows if r.vendor.lower() == str(vendor).lower()]
    if min_memory is not None:
        least = parse_bytes(min_memory, "--min-memory")
        rows = [r for r in rows if r.memory_bytes >= least]
    return Listing(name="gpus", items=tuple(rows))


def dtypes(name: str | None = None) -> Listing | EntryResult:
    """Every storage format of K and V and of weights, or one.

    Raises:
        KvcalcError: "unknown_dtype".
    """
    from kvcalc.core.weight_formats import weight_format, weight_formats  # noqa: PLC0415

    if name is None:
        items: list[DtypeItem | WeightItem] = [_dtype_item(key) for key in DTYPES]
        items += [_weight_item(f) for f in weight_formats()]
        return Listing(name="dtypes", items=tuple(items))
    try:
        entry = plain(_dtype_item(dtype(name, "dtypes").key))
    except KvcalcError as unknown:
        try:
            entry = plain(_weight_item(weight_format(name, "dtypes")))
        except KvcalcError:
            raise unknown from None
    return EntryResult(name="dtypes", entry=entry)


def _weight_item(f: WeightFormat) -> WeightItem:
    return WeightItem(f.key, f.aliases, float(f.bits), f.keeps, f.engines, f.note)


def _dtype_item(key: str) -> DtypeItem:
    d = DTYPES[key]
    bits = bits_per_element(d)
    both = kv_bytes(storage(key), 1, 128, 128)
    return DtypeItem(
        d.key, d.aliases, d.block_elements, d.block_bytes, d.head_bytes, bits, both, d.engines,
        d.note,
    )  # fmt: skip
