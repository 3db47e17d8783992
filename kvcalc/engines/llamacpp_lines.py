"""What llama.cpp and its kin log, what bounds their answers, and the commands that start them."""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.core.dtypes import storage
from kvcalc.core.plan import Change, Plan, RankPlan
from kvcalc.core.results.fit import Limit
from kvcalc.core.results.size import EngineItem
from kvcalc.core.units import MIB, format_bytes
from kvcalc.engines.llamacpp import Context
from kvcalc.engines.llamacpp_setup import Setup

#: How ggml writes our names of formats.
_GGML = {"fp16": "f16", "fp32": "f32"}
_CACHES = {
    "kv_window": "creating     SWA KV cache", "kv_full": "creating non-SWA KV cache",
    "indexer": "creating indexer KV cache",
}  # fmt: skip


def startup_lines(
    plan: Plan, s: Setup, made: Context, ranks: Sequence[RankPlan]
) -> tuple[str, ...]:
    """Weights, caches and compute buffers as the engine logs them."""
    ik = s.engine == "ik_llama.cpp"
    lines = []
    for rank in ranks:
        weights = next((-x.bytes for x in rank.budget if x.item == "weights"), 0)
        if weights:
            name = _device(plan, rank)
            text = f"{name:>11} buffer size" if ik else f"{name:>12} model buffer size"
            lines.append(f"{'llm_' if ik else ''}load_tensors: {text} = {_mib(weights)}")
    if ik:
        lines.append(f"llama_new_context_with_model: n_ctx      = {made.n_ctx}")
    else:
        lines.append(f"llama_context: n_ctx         = {made.n_ctx}")
        lines.append(f"llama_context: n_ctx_seq     = {made.n_ctx_seq}")
    for item in made.items:
        lines += _cache(s, made, item)
    for rank in ranks:
        size = next((-x.bytes for x in rank.budget if x.item == "activations"), None)
        if size is not None:
            head = "llama_new_context_with_model" if ik else "sched_reserve"
            lines.append(f"{head}: {_device(plan, rank):>10} compute buffer size = {_mib(size)}")
    return tuple(lines)


def _device(plan: Plan, rank: RankPlan) -> str:
    if plan.device.vendor == "Apple":
        return "Metal"
    name = {"AMD": "ROCm", "Intel": "SYCL"}.get(plan.device.vendor, "CUDA")
    return f"{name}{rank.stage}"


def _mib(size: int) -> str:
    return f"{size / MIB:7.2f} MiB"


def _cache(s: Setup, made: Context, item: EngineItem) -> list[str]:
    """The lines of one cache: cells, layers, and K and V in their formats."""
    k, v = (_GGML.get(t, t) for t in (s.type_k, s.type_v))
    if s.engine == "ik_llama.cpp":
        head = "llama_new_context_with_model: KV self size  ="
        if item.item == "kv_latent":
            copy = f"kv^T ({v}): {_mib(item.value_bytes)}" if item.value_bytes else ""
            parts = f"c^KV ({k}): {_mib(item.key_bytes)}, {copy or 'kv^T: not used'}"
        else:
            parts = f"K ({k}): {_mib(item.key_bytes)}, V ({v}): {_mib(item.value_bytes)}"
        return [f"{head} {_mib(item.bytes)}, {parts}"]
    seqs = f"{made.n_seq_max:2}/{item.streams} seqs"
    if item.item == "state":
        parts = f"R (f32): {_mib(item.key_bytes)}, S (f32): {_mib(item.value_bytes)}"
        size = f"{_mib(item.bytes)} ({made.n_seq_max:6} cells, {item.layers:3} layers"
        seqs = f"{made.n_seq_max:2} seqs {s.drafts:2} rs_seq)"
        return [f"llama_memory_recurrent: size = {size}, {seqs}, {parts}"]
    lines = []
    if item.item in _CACHES:
        lines.append(f"llama_kv_cache_iswa: {_CACHES[item.item]}, size = {item.cells} cells")
    lines.append(
        f"llama_kv_cache: size = {_mib(item.bytes)} ({item.cells:6} cells, {item.layers:3} layers, "
        f"{seqs}), K ({k}): {_mib(item.key_bytes)}, V ({v}): {_mib(item.value_bytes)}"
    )
    return lines


def limits_of(s: Setup, made: Context, on_host: int) -> tuple[Limit, ...]:
    """Slots and their cells, layers and caches on the host, formats that do nothing."""
    found = []
    slots = made.n_seq_max
    own = made.n_ctx if s.unified else made.n_ctx_seq
    name = "num_ctx" if s.engine == "ollama" else "n_ctx"
    if s.n_ctx is not None:
        shared = "shared by all" if s.unified and slots > 1 else "each"
        total = made.n_ctx if s.engine != "ollama" else own
        found.append(Limit(
            name, f"{name} {total:,}: {slots:,} slots, {own:,} cells {shared}"
        ))  # fmt: skip
    if made.n_ctx > (s.n_ctx or 0) > 0 and s.engine != "ollama":
        found.append(Limit(
            "padding", f"{made.n_ctx:,} cells are allocated for n_ctx {s.n_ctx:,}: steps of 256"
        ))  # fmt: skip
    if s.host_kv:
        found.append(Limit("host", f"the KV cache, {format_bytes(made.total_bytes)}, is in host "
                                   "memory, whose size is not asked"))  # fmt: skip
    elif on_host > 0:
        found.append(Limit(
            "host", f"{on_host} layers and their caches are in host memory, whose size is not asked"
        ))  # fmt: skip
    latent = [i for i in made.items if i.item == "kv_latent" and not i.value_bytes]
    if latent:
        found.append(Limit("no_values", "latent attention stores no V: type_v has no effect"))
    if s.type_k != s.type_v and not latent:
        found.append(Limit("formats", f"K is in {s.type_k}, V in {s.type_v}: only one is smaller"))
    if any(i.item == "state" for i in made.items):
        found.append(Limit("states", "recurrent states stay in f32, whatever the cache's format"))
    return tuple(found)


def command_of(plan: Plan, s: Setup) -> str:
    """`llama-server …`; for Ollama its variables and `ollama serve`."""
    k, v = (_GGML.get(t, t) for t in (s.type_k, s.type_v))
    slots = s.n_seq_max or plan.requests
    total = s.n_ctx or slots * plan.context
    if s.engine == "ollama":
        words = [f"OLLAMA_CONTEXT_LENGTH={total // slots}", f"OLLAMA_NUM_PARALLEL={slots}"]
        if k not in {"f16", "bf16"}:
            words += [f"OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE={k}"]
        if s.margin:
            words.append(f"OLLAMA_GPU_OVERHEAD={s.margin}")
        return " ".join([*words, "ollama serve"])
    words = [f"llama-server -m {_file(plan)} -c {total} -np {slots}"]
    words += [f"-ctk {k}"] if k not in {"f16", "bf16"} else []
    words += [f"-ctv {v}"] if v not in {"f16", "bf16"} else []
    words += ["-kvu"] if s.unified and s.engine == "llama.cpp" else []
    words += ["--swa-full"] if plan.settings.get("swa_full") else []
    words += [] if s.flash is None else [f"-fa {'on' if s.flash else 'off'}"]
    words += [f"-ub {s.n_ubatch}"] if "n_ubatch" in plan.settings else []
    words += [f"-b {s.n_batch}"] if "n_batch" in plan.settings else []
    # With --fit the engine itself puts all layers on GPUs, and keeps its margin.
    layers = s.n_gpu_layers
    if layers is not None or not s.margin:
        words.append(f"-ngl {len(plan.model.layers) + 1 if layers is None else layers}")
    words += ["-nkvo"] if s.host_kv else []
    words += [f"-ts {plan.settings['tensor_split']}"] if s.shares else []
    if s.engine == "ik_llama.cpp":
        words += [f"-mla {s.mla}"] if "mla_attn" in plan.settings else []
    else:
        words += ["-fit off"] if plan.settings.get("fit") is False else []
    return " ".join(words)


def _file(plan: Plan) -> str:
    file = plan.model.file or ""
    if file.endswith(".gguf"):
        return file
    kind = plan.weights.format
    return f"{plan.model.id}{f'-{kind}' if kind else ''}.gguf"


def changes_of(plan: Plan, s: Setup) -> list[Change]:
    """Smaller formats, a smaller batch, no margin, fewer layers on the GPU."""
    found = []
    named = any(n in plan.settings for n in ("type_k", "type_v", "kv_cache_type"))
    if not named and plan.storage.k.key in {"bf16", "fp16"}:
        for name in ("q8_0", "q4_0"):
            smaller = plan._replace(storage=storage(name, model=plan.storage.model.key))
            found.append(Change("kv_dtype", f"--kv-dtype {name}", smaller))
    batch = "num_batch" if s.engine == "ollama" else "n_ubatch"
    settings: list[tuple[str, object]] = [(batch, 128)] if s.n_ubatch > 128 else []
    if s.engine == "llama.cpp" and s.margin:
        settings.append(("fit", False))
    if s.swa_full and "swa_full" in plan.settings:
        settings.append(("swa_full", False))
    layers = len(plan.model.layers)
    if s.n_gpu_layers is None:
        name = "num_gpu" if s.engine == "ollama" else "n_gpu_layers"
        settings += [(name, layers * part // 4) for part in (3, 2)]
    for name, value in settings:
        changed = plan._replace(settings={**plan.settings, name: value})
        text = str(value).lower() if isinstance(value, bool) else value
        found.append(Change("setting", f"--set {name}={text}", changed))
    return found
