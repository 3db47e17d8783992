"""A log and the options beside it to a plan that an engine's rules can judge.

What the log does not say is assumed, and said to be so; what cannot be assumed leaves the figures
that need it without a prediction.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kvcalc import resolve
from kvcalc.api.check_model import model_of, weights_of
from kvcalc.api.fit_plan import device_of, memory_of
from kvcalc.core import fit as core
from kvcalc.core.dtypes import GGML_ENGINES
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.check import Assumed
from kvcalc.core.shard import Parallel
from kvcalc.core.units import MAX_COUNT, format_bytes, parse_bytes, parse_count, parse_share
from kvcalc.logs.facts import Log
from kvcalc.shape import Shape

#: What an engine calls the settings of a plan.
_VLLM = {
    "context": "max_model_len", "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size", "dcp": "decode_context_parallel_size",
    "kv_dtype": "kv_cache_dtype", "dtype": "dtype", "utilization": "gpu_memory_utilization",
    "block_size": "block_size",
}  # fmt: skip
NAMES: dict[str, dict[str, str]] = {
    "vllm": _VLLM,
    "sglang": {"context": "context_length", "tp": "tp_size", "pp": "pp_size", "dp": "dp_size",
               "dcp": "dcp_size", "kv_dtype": "kv_cache_dtype", "dtype": "dtype",
               "block_size": "page_size"},
    "tensorrt-llm": {"context": "max_seq_len", "tp": "tp_size", "pp": "pp_size",
                     "kv_dtype": "kv_cache_dtype", "block_size": "tokens_per_block"},
    "lmdeploy": {"context": "session_len", "tp": "tp", "dtype": "dtype",
                 "block_size": "cache_block_seq_len"},
}  # fmt: skip
#: Settings that are whole numbers above 0, that count ranks, and that are shares of the memory.
_RANKS = frozenset(
    names[key] for names in NAMES.values() for key in ("tp", "pp", "dp", "dcp") if key in names
)
_MOST_RANKS = 65_536
_COUNTS = _RANKS | {
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "context_length",
    "page_size", "max_seq_len", "tokens_per_block", "session_len", "cache_block_seq_len", "n_ctx",
    "n_ctx_seq", "n_seq_max", "n_ubatch", "n_batch", "max_batch_size", "max_num_tokens",
}  # fmt: skip
_SHARES = frozenset({
    "gpu_memory_utilization", "mem_fraction_static", "free_gpu_memory_fraction",
    "cache_max_entry_count",
})  # fmt: skip


class Setup(NamedTuple):
    """What the log's engine was started with, as far as log and options tell."""

    log: Log
    settings: dict[str, Any]
    version: str | None
    model: Model | None = None
    #: None where the model is not known.
    plan: core.Plan | None = None
    gpu: str | None = None
    assumed: tuple[Assumed, ...] = ()
    #: Why there is no plan.
    why_not: str = ""


def setup_of(log: Log, asked: dict[str, Any], shape: Shape) -> Setup:
    """The setup that log and options describe; options win.

    Raises:
        KvcalcError: What the options raise; a model that only the log names is never an error.
    """
    settings = {**_usable(log.settings), **dict(asked.get("set") or {})}
    version = resolve.version_of(asked.get("engine_version")) or log.version
    assumed: list[Assumed] = []
    model = model_of(log, asked.get("model"), shape, assumed)
    if model is None:
        named = f'no preset is called "{log.model}"' if log.model else "the log names no model"
        return Setup(log, settings, version, why_not=f"{named}: give MODEL after the log")
    names = NAMES.get(log.engine, {})

    def said(key: str, default: Any = None) -> Any:
        """An option, else the setting of that meaning."""
        value = asked.get(key)
        return settings.get(names.get(key, ""), default) if value is None else value

    try:
        storage = resolve.storage_of(
            model, _kv_dtype(said("kv_dtype"), settings), None, None, _dtype(said("dtype"))
        )
    except KvcalcError as error:
        return Setup(log, settings, version, model, why_not=error.message)
    memory, device, gpu = _machine(log, asked, assumed)
    share = said("utilization")
    plan = core.Plan(
        model=model,
        storage=storage,
        parallel=_parallel(said, settings),
        weights=weights_of(log, model, asked, settings),
        memory=memory,
        context=_context(said("context"), model, settings, assumed),
        utilization=None if share is None else parse_share(share, "--utilization"),
        block_size=_page(said("block_size")),
        allow_long=True,
        device=device,
        version=_release(log.engine, version),
        settings=known_settings(log, settings),
        rules=_rules(log.engine),
    )
    return Setup(log, settings, version, model, plan, gpu, tuple(assumed))


def _usable(settings: dict[str, Any]) -> dict[str, Any]:
    """The log's settings without those that a damaged line made nonsense of."""
    kept = {}
    for name, value in settings.items():
        if name in _COUNTS and not (type(value) is int and 0 < value <= MAX_COUNT):
            continue
        if name in _RANKS and value > _MOST_RANKS:
            continue
        if name in _SHARES and not (isinstance(value, (int, float)) and 0 < value <= 1):
            continue
        kept[name] = value
    return kept


def _release(engine: str, version: str | None) -> str | None:
    """The version as the engine's rules take it; None where it is no release of theirs."""
    if version is None:
        return None
    if engine in GGML_ENGINES:
        build = re.search(r"\b(?:build |b)([0-9]+)", version)
        return f"b{build[1]}" if build else None
    return version if re.match(r"v?[0-9]", version) else None


def _rules(engine: str) -> core.Rules | None:
    from kvcalc.engines.rules import rules_for  # noqa: PLC0415 - a log without a model needs none

    # Ollama's runner is llama.cpp, and its log has llama.cpp's settings.
    return rules_for("llama.cpp" if engine == "ollama" else engine)


def known_settings(log: Log, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that the engine's rules take, each of its kind; others have no effect here."""
    from kvcalc.engines import registry  # noqa: PLC0415 - as above

    engine = registry.engine_of("llama.cpp" if log.engine == "ollama" else log.engine)
    known: dict[str, Any] = {}
    for setting in engine.settings:
        if setting.name not in settings:
            continue
        try:
            known |= registry.settings_of(engine, {setting.name: settings[setting.name]})
        except KvcalcError:
            continue
    if log.engine == "vllm":
        if "V0" in log.marks:
            known["use_v1"] = False
        known.update(_runner(log))
        known.update(_speculation(settings.get("speculative_config")))
    return known


def _runner(log: Log) -> dict[str, bool]:
    """Which model runner loaded the model, by its file's name, where a release has two."""
    from kvcalc.engines.vllm.defaults import V2_ALWAYS, V2_FROM  # noqa: PLC0415 - as above
    from kvcalc.engines.vllm.versions import version_of  # noqa: PLC0415 - as above

    version = _release("vllm", log.version)
    if version is None or not V2_FROM <= version_of(version) < V2_ALWAYS:
        return {}
    seen = {mark: mark in log.marks for mark in ("runner V1", "runner V2")}
    return {"use_v2_model_runner": seen["runner V2"]} if any(seen.values()) else {}


def _speculation(config: Any) -> dict[str, int]:
    """Draft tokens of a dumped SpeculativeConfig; MTP and EAGLE heads are a layer of their own."""
    text = str(config or "")
    tokens = re.search(r"num_spec(?:ulative)?_tokens['\"]?[=:] ?([0-9]+)", text)
    if tokens is None:
        return {}
    layers = 0 if re.search(r"ngram|suffix", text) else 1
    return {"num_speculative_tokens": int(tokens[1]), "num_draft_layers": layers}


def _parallel(said: Any, settings: dict[str, Any]) -> Parallel:
    found = [said(key, 1) for key in ("tp", "pp", "dp", "dcp")]
    made = resolve.parallel_of(*(1 if n in {None, 0} else n for n in found[:3]))
    made = made._replace(dcp=parse_count(found[3] or 1, "--dcp"))
    if settings.get("enable_dp_attention") is True:
        # SGLang takes attention's data-parallel ranks out of the tensor-parallel ones.
        made = made._replace(tp=max(made.tp // made.dp, 1))
    return made


def _page(value: Any) -> int | None:
    return None if value is None else parse_count(value, "--block-size")


def _kv_dtype(value: Any, settings: dict[str, Any]) -> str:
    bits = settings.get("quant_policy")
    if bits in {4, 8}:
        return f"int{bits}"
    name = str(value or "auto")
    used = str(settings.get("kv_cache_dtype_used", ""))
    return used if name == "auto" and used.startswith(("float8", "fp8")) else name


def _dtype(value: Any) -> str | None:
    return None if value in {None, "auto"} else str(value).removeprefix("torch.")


def _context(value: Any, model: Model, settings: dict[str, Any], assumed: list[Assumed]) -> int:
    """The longest request; without one in the log the model's maximum, as engines default to."""
    if value is None and "n_ctx" in settings:
        slots = 1 if settings.get("kv_unified") else settings.get("n_seq_max", 1)
        value = max(settings["n_ctx"] // slots, 1)
    if value is not None:
        return parse_count(value, "-c")
    tokens = model.max_context_tokens or resolve.DEFAULT_CONTEXT
    assumed.append(Assumed("context", f"{tokens:,}", "the model's maximum"))
    return tokens


def _machine(
    log: Log, asked: dict[str, Any], assumed: list[Assumed]
) -> tuple[core.Memory | None, core.Device, str | None]:
    """Memory and kind of one GPU: what the log measured, else what the options name."""
    name = asked.get("gpu") or (log.devices[0] if log.devices else None)
    device, memory, shown = core.Device(), None, None
    if name is not None:
        try:
            gpu, _ = resolve.gpu_of(name)
        except KvcalcError:
            if asked.get("gpu") is not None:
                raise
            device = core.Device(name=name)
        else:
            device, memory, shown = device_of(gpu), memory_of(gpu), gpu.id
    total = log.last("memory")
    if asked.get("gpu_memory") is not None:
        size = parse_bytes(asked["gpu_memory"], "--gpu-memory")
        return core.Memory(size), device, shown
    if total is not None and log.engine not in GGML_ENGINES:
        ends = (int(total.low), int(total.high))
        return core.Memory(int(total.value), "measured", *ends), device, shown
    if memory is not None and _rules(log.engine) is not None:
        told = format_bytes(memory.bytes).replace("\u00a0", " ")
        assumed.append(Assumed("memory", told, f"what {shown} has"))
    return memory, device, shown
