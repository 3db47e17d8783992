"""What a llama.cpp context allocates, beside its log: caches and the compute buffer."""

from __future__ import annotations

from kvcalc.api.check_predict import BUDGET, Expected, Predicted
from kvcalc.api.check_setup import Setup
from kvcalc.core.cache import Latent
from kvcalc.core.dtypes import dtype, row_bytes
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.size import EngineItem
from kvcalc.core.units import cdiv
from kvcalc.logs.facts import Fact

_ROUNDED = "the printed digits"


def caches_of(setup: Setup) -> list[Predicted]:
    """The caches that a context of these settings allocates."""
    from kvcalc.engines.llamacpp import context  # noqa: PLC0415 - one engine, one import

    log, s, plan = setup.log, setup.settings, setup.plan
    if plan is None or "n_ctx" not in s:
        return []
    if "latent" in log.marks:
        return _ik_latent(setup)
    if log.engine == "ik_llama.cpp" and any(isinstance(g.cache, Latent) for g in plan.model.groups):
        return []
    made = context(
        plan.model,
        n_ctx=int(s["n_ctx"]),
        n_seq_max=int(s.get("n_seq_max", 1)),
        n_ubatch=int(s.get("n_ubatch", 512)),
        n_batch=int(s.get("n_batch", 2048)),
        # Before streams (summer of 2025) all sequences shared one row of cells.
        kv_unified=bool(s.get("kv_unified", "kv_unified" not in s)),
        # Window caches came in May 2025; before, every layer held all tokens.
        swa_full=bool(s.get("swa_full", not any(f.device for f in log.all("kv_cache")))),
        flash_attn=bool(s.get("flash_attn", True)),
        type_k=str(s.get("type_k", "f16")),
        type_v=str(s.get("type_v", "f16")),
    )
    items = [i for i in made.items if i.item != "state"]
    total = sum(i.bytes for i in items)
    caches = _main(log.all("kv_cache"))
    figures = []
    if len(caches) == len(items):
        for fact, item in zip(caches, items, strict=True):
            figures += _cache(item, fact.device)
    else:
        # Before window caches had a line of their own, one line told of all layers.
        figures.append(Predicted("kv_cache", total, total, total, _ROUNDED, "all layers together"))
    buffers = _main(log.all("kv_pool"))
    if len(buffers) == 1:
        figures.append(Predicted("kv_pool", total, total, total, _ROUNDED, "all layers together",
                                 buffers[0].device))  # fmt: skip
    figures.append(Predicted("estimated_kv", total, total, total, _ROUNDED, "before loading"))
    states = sum(i.bytes for i in made.items) - total
    if states:
        figures.append(Predicted("state_cache", states, states, states, _ROUNDED,
                                 "one recurrent state a sequence"))  # fmt: skip
    return figures


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


def _ik_latent(setup: Setup) -> list[Predicted]:
    """ik_llama.cpp with -mla: the latent of every layer, and a transposed copy without flash."""
    plan, s = setup.plan, setup.settings
    assert plan is not None  # noqa: S101 - asked before; for the type checker
    latents = [c for layer in plan.model.layers for c in layer if isinstance(c, Latent)]
    cells = cdiv(int(s["n_ctx"]), 256) * 256
    kind = dtype(str(s.get("type_k", "f16")))
    rows = sum(row_bytes(kind, 1, c.rank + c.rope_dim) for c in latents)
    copies = sum(2 * c.rank for c in latents)
    figures = [
        Predicted("kv_latent", rows * cells, rows * cells, rows * cells, _ROUNDED,
                  f"{len(latents)} layers of {cells:,} cells"),
        Predicted("kv_latent_transposed", copies * cells, copies * cells, copies * cells, _ROUNDED),
    ]  # fmt: skip
    if setup.log.last("kv_latent_transposed") is None:
        del figures[1]
    total = sum(int(f.best) for f in figures)
    return [*figures, Predicted("kv_cache", total, total, total, _ROUNDED)]


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
