"""Which engines kvcalc knows: their newest release read, and the settings each understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import parse_count, shown

Value = int | bool | float | str


class Setting(NamedTuple):
    """A setting by the engine's own name: "int", "bool", "share" or its choices; what it does."""

    name: str
    kind: str | tuple[str, ...]
    note: str
    default: str = ""


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
    Setting("n_seq_max", "int", "slots", "requests"),
    Setting("n_ubatch", "int", "tokens of a physical batch; windows keep one more", "512"),
    Setting("n_batch", "int", "tokens of a logical batch", "2048"),
    Setting("kv_unified", "bool", "one stream of cells for all slots", "false"),
    Setting("swa_full", "bool", "window caches as large as the full ones", "false"),
    Setting("flash_attn", "bool", "needed by a quantised V", "automatic"),
    Setting("type_k", _FORMATS, "format of K", "--k-dtype"),
    Setting("type_v", _FORMATS, "format of V", "--v-dtype"),
)
_VLLM = (
    Setting("max_num_batched_tokens", "int", "tokens of a step; windows keep them", "8192"),
    Setting("async_scheduling", "bool", "one more batch in flight", "true"),
    Setting("enable_prefix_caching", "bool", "hybrids keep two states a request", "by release"),
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
        )),
        Engine("llama.cpp", "0c1e57098", _LLAMA),
        Engine("vllm", "0.33.0", _VLLM, versioned=True),
    )
}  # fmt: skip
#: Engines whose rules are not in this release.
COMING = ("sglang", "ik_llama.cpp", "ollama", "tensorrt-llm", "lmdeploy")


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
    names = [s.name for s in engine.settings]
    close = nearest(name, names)
    near = f"nearest: {', '.join(close)}; " if close else ""
    label = f"{engine.id} {engine.newest}" if engine.newest else engine.id
    return KvcalcError(
        "unknown_setting", f"{label} has no setting {shown(name)}", f"{near}all: {', '.join(names)}"
    )


def _value(setting: Setting, text: object) -> Value:
    option = f"--set {setting.name}"
    if setting.kind == "int":
        return parse_count(str(text) if not isinstance(text, int) else text, option)
    if setting.kind == "bool":
        word = str(text).lower()
        if word in {"1", "true", "yes", "on"}:
            return True
        if word in {"0", "false", "no", "off"}:
            return False
        raise KvcalcError("usage", f"{option} is {shown(text)}", "expected true or false")
    word = str(text).lower()
    if word not in setting.kind:
        raise KvcalcError(
            "usage", f"{option} is {shown(text)}", f"expected one of: {', '.join(setting.kind)}"
        )
    return word
