"""vLLM's scheduler settings: from --set and from options, with the defaults of `vllm serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model
from kvcalc.core.simulate.job import Settings
from kvcalc.core.units import parse_count, parse_share, shown

#: Settings by vLLM's names, and the option that says the same.
SETTINGS = {
    "max_num_batched_tokens": "max_batched_tokens",
    "max_num_seqs": "max_requests",
    "max_model_len": "max_context",
    "enable_prefix_caching": "prefix_caching",
    "enable_chunked_prefill": None,
    "scheduler_reserve_full_isl": None,
    "watermark": None,
    "async_scheduling": None,
    "block_size": "block_size",
    "disable_hybrid_kv_cache_manager": None,
}
_FLAGS = frozenset(
    {"enable_prefix_caching", "enable_chunked_prefill", "scheduler_reserve_full_isl",
     "async_scheduling", "disable_hybrid_kv_cache_manager"}
)  # fmt: skip
#: vLLM's on GPUs below 70 GiB, and here where none is named.
_DEFAULT_TOKENS, _DEFAULT_SEQS = 2048, 256


def budget_settings(given: Mapping[str, object], values: Mapping[str, Any]) -> dict[str, object]:
    """Of the settings those that vLLM's memory budget depends on, as `fit` takes them."""
    names = _of_the_budget()
    found = {key: text for key, text in given.items() if key.replace("-", "_") in names}
    for key in ("max_num_batched_tokens", "max_num_seqs"):
        if key in values:
            found[key] = values[key]
    return found


def _of_the_budget() -> frozenset[str]:
    from kvcalc.engines.registry import ENGINES  # noqa: PLC0415 - only a GPU has a budget

    return frozenset(setting.name for setting in ENGINES["vllm"].settings)


def settings_of(
    given: Mapping[str, object], asked: Mapping[str, Any], *, budget: bool = False
) -> dict[str, Any]:
    """The scheduler's settings by name, from --set and from the options that say the same.

    With a `budget` settings that only it depends on may stand beside them.

    Raises:
        KvcalcError: "unknown_setting" with the nearest; "usage" for a value of another kind, or
            for both.
    """
    values: dict[str, Any] = {}
    for name, text in given.items():
        key = name.replace("-", "_")
        if key not in SETTINGS:
            if budget and key in _of_the_budget():
                continue
            close = nearest(key, list(SETTINGS))
            near = f"nearest: {', '.join(close)}; " if close else ""
            raise KvcalcError(
                "unknown_setting", f"the simulated scheduler has no setting {shown(name)}",
                f"{near}all: {', '.join(SETTINGS)}",
            )  # fmt: skip
        option = SETTINGS[key]
        if option is not None and asked.get(option) is not None:
            flag = f"--{option.replace('_', '-')}"
            raise KvcalcError("usage", f"{flag} and --set {key} say the same", "give one of them")
        values[key] = _value(key, text)
    for key, option in SETTINGS.items():
        if option is not None and asked.get(option) is not None:
            values[key] = asked[option]
    return values


def _value(key: str, text: object) -> Any:
    option = f"--set {key}"
    if key == "watermark":
        return float(parse_share(str(text), option))
    if key not in _FLAGS:
        return parse_count(text if isinstance(text, int) else str(text), option)
    word = str(text).lower()
    if word not in {"true", "1", "yes", "on", "false", "0", "no", "off"}:
        raise KvcalcError("usage", f"{option} is {shown(text)}", "expected true or false")
    return word in {"true", "1", "yes", "on"}


def engine_settings(
    values: Mapping[str, Any], engine: Mapping[str, Any], model: Model | None
) -> Settings:
    """All settings in force.

    Args:
        values: What was given.
        engine: What the engine takes on this GPU where nothing is given.
        model: Its maximum bounds requests where nothing else does.

    Raises:
        KvcalcError: "usage" if a step's tokens are fewer than the requests that may run.
    """
    most = values.get("max_model_len", model.max_context_tokens if model else None)
    chunked = values.get("enable_chunked_prefill", True)
    tokens = values.get("max_num_batched_tokens")
    if tokens is None:
        tokens = engine.get("max_num_batched_tokens", _DEFAULT_TOKENS)
        # A prompt that may not be cut must fit a step.
        tokens = tokens if chunked else max(tokens, most or 0)
    seqs = values.get("max_num_seqs")
    if seqs is None:
        seqs = min(engine.get("max_num_seqs", _DEFAULT_SEQS), tokens)
    if seqs > tokens:
        raise KvcalcError(
            "usage", f"{tokens:,} tokens a step are fewer than {seqs:,} requests at once",
            "vLLM refuses that too: raise --max-batched-tokens or lower --max-requests",
        )  # fmt: skip
    return Settings(
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        max_model_len=most,
        enable_prefix_caching=values.get("enable_prefix_caching", True),
        enable_chunked_prefill=chunked,
        scheduler_reserve_full_isl=values.get("scheduler_reserve_full_isl", True),
        watermark=values.get("watermark", 0.0),
        async_scheduling=values.get("async_scheduling", False),
    )
