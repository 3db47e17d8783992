"""Which engines kvcalc knows: their newest release read, and the settings each understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import parse_bytes, parse_count, parse_share, shown

Value = int | bool | float | str


class Setting(NamedTuple):
    """A setting by the engine's own name, what it does, and what holds without it.

    `kind`: "int" (1 or more), "count" (0 or more), "power" (of two), "bool", "bytes", "share"
    (0 to 1), "number" (above 0), "counts" and "numbers" (comma lists), or the choices.
    """

    name: str
    kind: str | tuple[str, ...]
    note: str
    default: str = ""
    #: The largest whole number: the engine's own limit, or beyond it a typing error.
    most: int | None = None


class Engine(NamedTuple):
    """An engine: its newest release that was read, and the settings of its storage."""

    id: str
    newest: str | None
    settings: tuple[Setting, ...]
    #: Whether a release may be named.
    versioned: bool = False


_FORMATS = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
_LLAMA = (
    Setting("n_ctx", "int", "tokens of all slots together", "requests · context"),
    Setting("n_seq_max", "int", "slots", "requests; llama-server alone: 4, unified", most=256),
    Setting("n_ubatch", "int", "tokens of a physical batch; windows keep one more", "512"),
    Setting("n_batch", "int", "tokens of a logical batch", "2048"),
    Setting("kv_unified", "bool", "one stream of cells for all slots", "false"),
    Setting("swa_full", "bool", "window caches as large as the full ones", "false"),
    Setting("flash_attn", "bool", "needed by a quantised V", "automatic"),
    Setting("type_k", _FORMATS, "format of K", "--k-dtype"),
    Setting("type_v", _FORMATS, "format of V", "--v-dtype"),
)
_OFFLOAD = (
    Setting(
        "n_gpu_layers", "count", "layers on GPUs, the last ones; the output layer counts", "all"
    ),
    Setting("no_kv_offload", "bool", "the KV cache stays in host memory", "false"),
    Setting("tensor_split", "numbers", "shares of the layers by GPU, like 3,1", "equal"),
)
_LLAMA_CPP = (
    *_LLAMA,
    *_OFFLOAD,
    Setting("fit", "bool", "keeps fit_target free; fewer layers on GPUs if need be", "true"),
    Setting("fit_target", "bytes", "what it keeps free on each GPU", "1GiB"),
    Setting("spec_draft_n_max", "count", "drafted tokens; states are kept for each", "0"),
)
_IK = (
    *(s for s in _LLAMA if s.name not in {"kv_unified", "swa_full"}),
    *_OFFLOAD,
    Setting(
        "mla_attn", ("0", "1", "2", "3"), "0 expands latents; 1 adds V without flash_attn", "3"
    ),
)
_OLLAMA = (
    Setting("num_ctx", "int", "tokens of one request (OLLAMA_CONTEXT_LENGTH)", "-c"),
    Setting(
        "num_parallel",
        "int",
        "requests at once (OLLAMA_NUM_PARALLEL)",
        "-n; Ollama alone: 1",
        most=256,
    ),
    Setting("kv_cache_type", ("f16", "q8_0", "q4_0"), "OLLAMA_KV_CACHE_TYPE", "--kv-dtype"),
    Setting(
        "flash_attention", "bool", "OLLAMA_FLASH_ATTENTION; q8_0 and q4_0 need it", "automatic"
    ),
    Setting("num_gpu", "count", "layers on GPUs, the last ones", "all"),
    Setting("num_batch", "int", "tokens of a batch", "512"),
    Setting("gpu_overhead", "bytes", "left alone on each GPU (OLLAMA_GPU_OVERHEAD)", "0"),
)
_SGLANG = (
    Setting(
        "mem_fraction_static",
        "share",
        "weights and pools, of the memory free before the load",
        "by GPU, release, tp",
    ),
    Setting("chunked_prefill_size", "int", "tokens of a prefill chunk", "by GPU: 2048 to 16384"),
    Setting("cuda_graph_max_bs", "int", "largest captured batch", "by GPU: 8 to 512"),
    Setting("disable_cuda_graph", "bool", "no graphs, nothing reserved for them", "false"),
    Setting("max_running_requests", "int", "requests at once", "2048 to 4096, by the pool"),
    Setting("max_total_tokens", "int", "tokens of the pool at most", "the memory"),
    Setting("page_size", "int", "tokens of a page", "1; 64 for sparse latent attention"),
    Setting("disable_radix_cache", "bool", "no prefix caching", "false"),
    Setting("disable_hybrid_swa_memory", "bool", "windows kept as full layers", "false"),
    Setting(
        "swa_full_tokens_ratio", "share", "tokens of window layers, of the full layers'", "0.8"
    ),
    Setting("mamba_full_memory_ratio", "number", "memory of states, of the KV pool's", "0.9"),
    Setting("max_mamba_cache_size", "int", "states", "the memory"),
    Setting(
        "mamba_ssm_dtype",
        ("float32", "bfloat16", "float16"),
        "dtype of recurrent states",
        "the config's, else float32",
    ),
    Setting(
        "mamba_radix_cache_strategy",
        ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy"),
        "states a request takes: 3, 5, 4",
        "auto",
    ),
    Setting("enable_dp_attention", "bool", "dp ranks share the experts", "false"),
    Setting(
        "speculative_algorithm",
        ("none", "eagle", "eagle3", "nextn", "standalone", "ngram"),
        "a draft layer beside the model's",
        "none",
    ),
    Setting("speculative_num_draft_tokens", "int", "states kept for each drafted token", "4"),
    Setting("hicache_size", "number", "host memory for KV, GB a rank", "none"),
)
_TENSORRT = (
    Setting("free_gpu_memory_fraction", "share", "of what the dummy run leaves", "0.9"),
    Setting("max_tokens", "int", "tokens of the pool at most", "the memory"),
    Setting("enable_block_reuse", "bool", "requests share the blocks of a prefix", "true"),
    Setting("tokens_per_block", "power", "tokens of a block", "32; before 1.0: 64"),
    Setting("max_batch_size", "int", "requests at once", "2048"),
    Setting("max_num_tokens", "int", "tokens of a step", "8192"),
    Setting("enable_attention_dp", "bool", "dp ranks share the experts", "false"),
)
_LMDEPLOY = (
    Setting("cache_max_entry_count", "share", "of the memory that is free after the load", "0.8"),
    Setting("backend", ("turbomind", "pytorch"), "the engine", "turbomind"),
    Setting("cache_block_seq_len", "int", "tokens of a block", "64"),
    Setting("enable_prefix_caching", "bool", "requests share the blocks of a prefix", "false"),
    Setting("max_batch_size", "int", "requests at once", "by GPU: 128, 384, 1024"),
    Setting("max_prefill_token_num", "int", "tokens of a prefill step", "8192"),
    Setting(
        "quant_policy", ("0", "4", "8"), "bits of K and V; 0 is the model's dtype", "--kv-dtype"
    ),
)
_VLLM = (
    Setting("max_num_batched_tokens", "int", "tokens of a step; windows keep them",
            "by GPU: 2048, 8192, 16384"),
    Setting("max_num_seqs", "int", "requests at once; the sampler's peak grows with it",
            "by GPU: 256, 1024"),
    Setting("enforce_eager", "bool", "no CUDA graphs", "false"),
    Setting("cudagraph_capture_sizes", "counts", "batches captured as graphs", "1, 2, 4, 8 …"),
    Setting("max_cudagraph_capture_size", "int", "the largest captured batch",
            "2 · max_num_seqs, at most 512"),
    Setting("kv_cache_memory_bytes", "bytes", "the pool itself; the budget is skipped"),
    Setting("enable_chunked_prefill", "bool", "long prompts in several steps", "true"),
    Setting("async_scheduling", "bool", "one more batch in flight", "true"),
    Setting("enable_prefix_caching", "bool", "hybrids keep two states a request", "by release"),
    Setting("num_speculative_tokens", "count", "draft tokens of a step", "0"),
    Setting("num_draft_layers", "count", "draft or MTP layers with a cache of their own",
            "1 with draft tokens", most=256),
    Setting("max_loras", "count", "adapters at once, each with a slot", "0"),
    Setting("max_lora_rank", "int", "rank of a slot", "16"),
    Setting("language_model_only", "bool", "no vision or audio encoder", "false"),
    Setting("use_v1", "bool", "the V1 engine (VLLM_USE_V1), 0.8 to 0.10", "true"),
    Setting("use_v2_model_runner", "bool", "the V2 runner (VLLM_USE_V2_MODEL_RUNNER), from 0.22",
            "by release"),
    Setting("disable_hybrid_kv_cache_manager", "bool", "windows allocated as full", "false"),
    Setting("mamba_ssm_cache_dtype", ("auto", "float32", "float16", "bfloat16"),
            "dtype of recurrent states", "auto"),
)  # fmt: skip
ENGINES: dict[str, Engine] = {
    e.id: e
    for e in (
        Engine("none", None, ()),
        Engine("transformers", "5.24.0", (
            Setting("cache_implementation", ("dynamic", "static"), "kind of cache", "dynamic"),
            Setting("max_cache_len", "int", "length of a static cache", "the context"),
            Setting("all_logits", "bool", "a forward pass that returns every token's", "false"),
        )),
        Engine("vllm", "0.33.0", _VLLM, versioned=True),
        Engine("sglang", "0.5.23", _SGLANG, versioned=True),
        Engine("llama.cpp", "0c1e57098", _LLAMA_CPP, versioned=True),
        Engine("ik_llama.cpp", "2025-07", _IK),
        Engine("ollama", "0.17.0", _OLLAMA, versioned=True),
        Engine("tensorrt-llm", "1.3.0rc7", _TENSORRT, versioned=True),
        Engine("lmdeploy", "0.18.0", _LMDEPLOY),
    )
}  # fmt: skip
#: Engines whose rules are not in this release.
COMING: tuple[str, ...] = ()


def engine_of(name: str) -> Engine:
    """The engine called `name`.

    Raises:
        KvcalcError: "unknown_engine".
    """
    key = str(name).lower()
    found = ENGINES.get(key)
    if found is not None:
        return found
    if key in COMING:
        raise KvcalcError(
            "unknown_engine", f"the rules of {key} are not in this version of kvcalc",
            f"there are: {', '.join(ENGINES)}",
        )  # fmt: skip
    close = nearest(key, [*ENGINES, *COMING])
    near = f"nearest: {', '.join(close)}; " if close else ""
    raise KvcalcError(
        "unknown_engine", f'no engine "{shown(name)}"', f"{near}all: {', '.join(ENGINES)}"
    )


def settings_of(engine: Engine, given: Mapping[str, object]) -> dict[str, Value]:
    """The settings, each of its kind.

    Raises:
        KvcalcError: "unknown_setting", naming the nearest; "usage" for a value of another kind.
    """
    known = {s.name: s for s in engine.settings}
    values: dict[str, Value] = {}
    for name, text in given.items():
        setting = known.get(name.replace("-", "_"))
        if setting is None:
            raise _unknown(engine, name)
        values[setting.name] = _value(setting, text)
    return values


def _unknown(engine: Engine, name: str) -> KvcalcError:
    if not engine.settings:
        return KvcalcError(
            "unknown_setting", f"--set {shown(name)}: the textbook (--engine none) has no settings",
            "name the engine that has it: --engine",
        )  # fmt: skip
    from kvcalc.engines.host_pools import HOST_POOLS  # noqa: PLC0415 - the refusal alone

    names = [s.name for s in engine.settings]
    if name.replace("-", "_") in {pool.name for pool in HOST_POOLS}:
        return KvcalcError(
            "unknown_setting", f"{engine.id}: {name} is memory of the host, not of the GPU",
            "kvcalc offload takes it",
        )  # fmt: skip
    close = nearest(name, names)
    near = f"nearest: {', '.join(close)}; " if close else ""
    label = f"{engine.id} {engine.newest}" if engine.newest else engine.id
    return KvcalcError(
        "unknown_setting", f"{label} has no setting {shown(name)}",
        f"{near}all: kvcalc engines show {engine.id}",
    )  # fmt: skip


def _value(setting: Setting, text: object) -> Value:
    option = f"--set {setting.name}"
    if setting.kind in {"int", "count", "power"}:
        return _whole(setting, text, option)
    if setting.kind == "bool":
        word = str(text).lower()
        if word in {"1", "true", "yes", "on"}:
            return True
        if word in {"0", "false", "no", "off"}:
            return False
        raise KvcalcError("usage", f"{option} is {shown(text)}", "expected true or false")
    if setting.kind == "bytes":
        return parse_bytes(str(text), option)
    if setting.kind == "counts":
        return ",".join(str(parse_count(n, option)) for n in str(text).strip("[]").split(","))
    if isinstance(setting.kind, str):
        return _measure(setting.kind, text, option)
    word = str(text).lower()
    if word not in setting.kind:
        raise KvcalcError(
            "usage", f"{option} is {shown(text)}", f"expected one of: {', '.join(setting.kind)}"
        )
    return word


def _whole(setting: Setting, text: object, option: str) -> int:
    least = int(setting.kind != "count")
    value = parse_count(text if isinstance(text, int) else str(text), option, minimum=least)
    if setting.most is not None and value > setting.most:
        raise KvcalcError("usage", f"{option} is {value:,}", f"the most is {setting.most:,}")
    if setting.kind == "power" and value & (value - 1):
        raise KvcalcError("usage", f"{option} is {value:,}", "expected a power of two, like 32")
    return value


def _measure(kind: str, text: object, option: str) -> Value:
    """A share, a number above 0, or several with commas of which one is."""
    if kind == "share":
        return float(parse_share(str(text), option))
    parts = str(text).split(",") if kind == "numbers" else [str(text)]
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = []
    if not values or not all(0 <= v < 10**9 for v in values) or not any(values):
        hint = "expected a number above 0, below 1,000,000,000"
        raise KvcalcError("usage", f"{option} is {shown(text)}", hint)
    return ",".join(part.strip() for part in parts) if kind == "numbers" else values[0]
