"""What a llama.cpp context allocates, beside its log: caches and the compute buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvcalc.api.check_predict import BUDGET, Expected, Predicted
from kvcalc.api.check_setup import Setup
from kvcalc.core.cache import Latent, SlidingWindow
from kvcalc.core.dtypes import Storage, dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.size import EngineItem
from kvcalc.logs.facts import Fact, Log

if TYPE_CHECKING:
    from kvcalc.engines.llamacpp import Context

_ROUNDED = "the printed digits"
#: `-ub`: the default, and what people set.
_UBATCHES = (512, 128, 256, 1024, 2048, 4096, 8192)


def caches_of(setup: Setup) -> list[Predicted]:
    """The caches that a context of these settings allocates."""
    log, s, plan = setup.log, setup.settings, setup.plan
    if plan is None:
        return []
    latents = any(isinstance(g.cache, Latent) for g in plan.model.groups)
    if "latent" in log.marks or (latents and _expanded(setup)):
        return _kept(setup) if "n_ctx" in s else []
    if log.engine == "ik_llama.cpp" and latents:
        return []
    made = _context(setup)
    items = [i for i in made.items if i.item != "state"]
    total = sum(i.bytes for i in items)
    figures = []
    if "n_ctx" in s:
        figures += _caches(setup, items, total)
        figures += _before_loading(setup, items, total)
    states = sum(i.bytes for i in made.items) - total
    if states:
        figures.append(Predicted("state_cache", states, states, states, _ROUNDED,
                                 "one recurrent state a sequence"))  # fmt: skip
    return figures


def _context(setup: Setup) -> Context:
    """The context as set; where the log has no n_ubatch the first usual one whose windows fit."""
    cells = [f.value for f in setup.log.all("kv_cells") if f.device == "SWA"]
    made = _made(setup, int(setup.settings.get("n_ubatch", _UBATCHES[0])))
    if "n_ubatch" in setup.settings or not cells:
        return made
    for ubatch in _UBATCHES:
        tried = _made(setup, ubatch)
        if any(item.cells == cells[0] for item in tried.items if item.item == "kv_window"):
            return tried
    return made


def _made(setup: Setup, n_ubatch: int) -> Context:
    """llama.cpp's context; of a log that does not tell its length only the states count."""
    from kvcalc.engines.llamacpp import context  # noqa: PLC0415 - one engine, one import

    log, s, plan = setup.log, setup.settings, setup.plan
    assert plan is not None  # noqa: S101 - asked before; for the type checker
    slots = int(s.get("n_seq_max", 1))
    return context(
        plan.model,
        n_ctx=int(s.get("n_ctx", 256 * slots)),
        n_seq_max=slots,
        n_ubatch=n_ubatch,
        n_batch=int(s.get("n_batch", max(2048, n_ubatch))),
        # Before streams (summer of 2025) all sequences shared one row of cells.
        kv_unified=bool(s.get("kv_unified", "kv_unified" not in s)),
        # Window caches came in May 2025; before, every layer held all tokens.
        swa_full=bool(s.get("swa_full", not _windowed(log))),
        flash_attn=bool(s.get("flash_attn", True)),
        type_k=str(s.get("type_k", "f16")),
        type_v=str(s.get("type_v", "f16")),
    )


def _windowed(log: Log) -> bool:
    """Whether the log names its caches one by one."""
    return any(f.device for item in ("kv_cache", "kv_cells") for f in log.all(item))


def _caches(setup: Setup, items: list[EngineItem], total: int) -> list[Predicted]:
    """Each cache beside its line, and all of them beside a buffer that holds them."""
    log = setup.log
    caches = _main(log.all("kv_cache"))
    figures = []
    if len(caches) == len(items):
        for fact, item in zip(caches, items, strict=True):
            figures += _cache(item, fact.device)
    elif not any(fact.device for fact in caches):
        # Before window caches had a line of their own, one line told of all layers.
        figures.append(Predicted("kv_cache", total, total, total, _ROUNDED, "all layers together"))
    if "n_ctx" in log.inferred:
        # What was taken from the cells says nothing of them.
        figures = [f for f in figures if f.item != "kv_cells" or f.device == "SWA"]
    buffers = _main(log.all("kv_pool"))
    if len(buffers) == len(items) > 1 and len({f.device for f in buffers}) == 1:
        # One device holds every cache, in the order in which they are made.
        for fact, item in zip(buffers, items, strict=True):
            why = f"{item.layers} layers of {item.cells or 0:,} cells"
            figures.append(Predicted("kv_pool", item.bytes, item.bytes, item.bytes, _ROUNDED, why,
                                     fact.device))  # fmt: skip
    elif len(buffers) == 1 and len(caches) < 2:
        figures.append(Predicted("kv_pool", total, total, total, _ROUNDED, "all layers together",
                                 buffers[0].device))  # fmt: skip
    return figures


def _before_loading(setup: Setup, items: list[EngineItem], total: int) -> list[Predicted]:
    """Ollama's estimate of K and V: the full length in every layer, or windows where it knows them.

    Of windows it keeps one a slot and a batch (`fs/ggml/ggml.go`, GraphSize); which models' windows
    it knows, and how wide it takes them, differs between releases: anything between is right.
    """
    plan, s = setup.plan, setup.settings
    assert plan is not None  # noqa: S101 - asked before; for the type checker
    windows = [g for g in plan.model.groups if isinstance(g.cache, SlidingWindow)]
    if any(isinstance(g.cache, Latent) for g in plan.model.groups):
        return []
    if not windows:
        return [Predicted("estimated_kv", total, total, total, _ROUNDED, "before loading")]
    n_ctx, slots = int(s["n_ctx"]), int(s.get("n_seq_max", 1))
    full, least = 0, 0
    for group in plan.model.groups:
        entry = len(group.layers) * group.cache.entry_bytes(_stored(s, plan.storage))
        window = group.cache.window if isinstance(group.cache, SlidingWindow) else n_ctx
        full += entry * n_ctx
        least += entry * min(n_ctx, slots * window + int(s.get("n_batch", 512)))
    if len(items) > 1 and full == least:
        return []
    why = "before loading: windows kept as such, or as full layers, by release"
    return [Predicted("estimated_kv", least, least, full, BUDGET, why)]


def _stored(s: dict[str, Any], plain: Storage) -> Storage:
    """K and V as the log says they are stored, for one figure of all layers."""
    k, v = (dtype(str(s.get(name, "f16"))) for name in ("type_k", "type_v"))
    return Storage(k, v, plain.model)


def _cache(item: EngineItem, device: str) -> list[Predicted]:
    """One cache: its bytes, those of K and V, its cells and layers."""
    cells, times = item.cells or 0, item.streams or 1
    why = f"{item.layers} layers of {cells:,} cells" + (f", {times} times" if times > 1 else "")
    sizes = (("kv_cache", item.bytes), ("kv_key", item.key_bytes), ("kv_value", item.value_bytes))
    figures = [Predicted(name, n, n, n, _ROUNDED, why, device) for name, n in sizes]
    counts = (("kv_cells", cells), ("kv_layers", item.layers))
    return figures + [Predicted(name, n, n, n, "exact", why, device) for name, n in counts]


def _main(facts: list[Fact]) -> list[Fact]:
    """Those of the model's own context, not of a draft's."""
    return [f for f in facts if "draft" not in f.note]


def _expanded(setup: Setup) -> bool:
    """Whether a model of latents was loaded with keys and values of every head.

    Before April 2025 llama.cpp had no latents, and ik_llama.cpp has none with `-mla 0`.
    """
    value = setup.log.last("kv_value")
    return value is not None and value.value > 0


def _kept(setup: Setup) -> list[Predicted]:
    """Latents by ik_llama.cpp's `-mla`: as such, with a transposed copy, or expanded."""
    from kvcalc.engines.llamacpp_ik import context  # noqa: PLC0415 - one engine, one import

    log, s, plan = setup.log, setup.settings, setup.plan
    assert plan is not None  # noqa: S101 - asked before; for the type checker
    copy = log.last("kv_latent_transposed")
    mla = 0 if _expanded(setup) else 1 if copy is not None and copy.value else 2
    made = context(
        plan.model, int(s["n_ctx"]), int(s.get("n_seq_max", 1)),
        # Without a transposed copy it may be on or off: only the padding of the cells differs.
        flash=bool(s.get("flash_attn", mla == 2)),
        mla=mla, type_k=str(s.get("type_k", "f16")), type_v=str(s.get("type_v", "f16")),
    )  # fmt: skip
    figures = []
    for item in made.items:
        if item.item == "state":
            continue
        names = ("kv_key", "kv_value") if mla == 0 else ("kv_latent", "kv_latent_transposed")
        why = f"{item.layers} layers of {item.cells or 0:,} cells"
        parts = (item.key_bytes or 0, item.value_bytes or 0)
        sizes = [*zip(names, parts, strict=True), ("kv_cache", item.bytes)]
        figures += [Predicted(name, n, n, n, _ROUNDED, why) for name, n in sizes if n]
    return figures


def buffers_of(setup: Setup) -> Expected:
    """The compute buffer of the one GPU that the log names, by the engine's rules."""
    plan, log = setup.plan, setup.log
    if plan is None or plan.rules is None or plan.memory is None:
        return Expected()
    devices = {f.device for f in log.all("compute") if not _on_host(f.device)}
    # The logits need the vocabulary, which an excerpt of a log may lack.
    if len(devices) != 1 or not plan.model.vocab_size or not plan.model.hidden_size:
        return Expected()
    try:
        ranks = plan.rules.ranks(plan)
    except KvcalcError as error:
        return Expected(reasons=(error.message,))
    line = next((line for line in ranks[0].budget if line.item == "activations"), None)
    if line is None:
        return Expected()
    ends = (-line.bytes, -line.high_bytes, -line.low_bytes)
    return Expected((Predicted("compute", *ends, BUDGET, line.note, devices.pop()),))


def _on_host(device: str) -> bool:
    return device.startswith("CPU") or device.endswith("_Host") or device in {"", "Host"}
