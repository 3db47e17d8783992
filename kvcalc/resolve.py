"""Names and option texts to core objects: models, shapes, storage, weights, counts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kvcalc.checkpoints.source import State, is_path, load_source, state
from kvcalc.core.cache import Cross
from kvcalc.core.dtypes import Storage, storage
from kvcalc.core.dtypes import dtype as element
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model, with_encoder_tokens
from kvcalc.core.results.base import WeightInfo, WeightType
from kvcalc.core.shard import Parallel
from kvcalc.core.units import parse_bytes, parse_count, shown
from kvcalc.shape import Count, Shape, custom_model

if TYPE_CHECKING:
    from kvcalc.catalog.gpus import Gpu

DEFAULT_CONTEXT = 4096


def model_of(
    name: str | Model | None, shape: Shape | None = None, encoder_tokens: Count | None = None
) -> Model:
    """The model called `name`, or the one given by its numbers.

    Raises:
        KvcalcError: "usage" for both or neither; "unknown_model" and what reading a file raises.
    """
    shape = shape or Shape()
    if name is not None and shape.given():
        if isinstance(name, Model):
            name = name.id
        raise KvcalcError(
            "usage",
            f"MODEL {shown(name)} and {', '.join(shape.given())} are two models",
            "name a model or give its numbers, not both",
        )
    if isinstance(name, Model):
        model = name
    elif name is not None:
        if not isinstance(name, str) or not name.strip():
            what = "is empty" if isinstance(name, str) else f"{shown(name)} is no name"
            raise KvcalcError("usage", f"MODEL {what}", "all models: kvcalc models")
        model = _named(name, app_dir(), os.environ.get("KVCALC_PRESETS"), _state(name))
    else:
        model = custom_model(shape)
    if encoder_tokens is not None:
        if not any(isinstance(g.cache, Cross) for g in model.groups):
            raise KvcalcError(
                "usage", f"--encoder-tokens: {model.id} has no cross-attention to an encoder",
                "leave it out",
            )  # fmt: skip
        model = with_encoder_tokens(model, parse_count(encoder_tokens, "--encoder-tokens"))
    return model


def app_dir() -> str:
    """The user's own kvcalc folder, where each system keeps such."""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("APPDATA", os.path.expanduser("~")), "kvcalc")
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/kvcalc")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "kvcalc")


def is_source(name: str) -> bool:
    """Whether a MODEL names a file, a folder or a model of the hub rather than a preset."""
    return is_path(name) or name[:3].lower() == "hf:"


def _state(name: str) -> State | None:
    """The state of the files behind a path, so that `batch` sees them change; else None."""
    return state(name) if is_path(name) else None


@lru_cache(maxsize=1024)
def _named(name: str, app: str, presets: str | None, files: State | None) -> Model:  # noqa: ARG001
    """A path's model, a hub name's, or a preset; the last two arguments are part of the key."""
    if files is not None:
        return load_source(name)
    if is_source(name):
        from kvcalc.checkpoints.hub import load_hub  # noqa: PLC0415 - only who asks for the hub

        return load_hub(name)
    from kvcalc.catalog.models import load_model  # noqa: PLC0415

    try:
        return load_model(name, (app,))
    except KvcalcError as error:
        # A folder without a config.json, or a file of another kind, says more than "no model".
        if error.code == "unknown_model" and os.path.exists(name):
            return load_source(name)
        raise


_TIMES = r"([0-9]+)\s*[x×*]\s*(.+)"


def gpu_of(name: str) -> tuple[Gpu, int | None]:
    """The GPU called `name`, and how many of it the name says: "8xh100" is 8 of h100-sxm.

    Raises:
        KvcalcError: "unknown_gpu"; "usage" for a mixed machine (a+b) or a count of 0.
    """
    if not isinstance(name, str) or not name.strip():
        raise KvcalcError("usage", "--gpu is empty", "all GPUs: kvcalc gpus")
    if "+" in name:
        raise KvcalcError(
            "usage", f"--gpu {shown(name)}: only fit and report plan machines that mix GPUs",
            "name one kind of GPU; a,b compares them",
        )  # fmt: skip
    match = re.fullmatch(_TIMES, name.strip(), re.IGNORECASE)
    if match is None:
        return _gpu(name), None
    return _gpu(match[2]), parse_count(match[1], "--gpu COUNTxNAME")


#: A size where a name is expected: 24GB, "80 GiB", 24G.
_SIZE = r"\s*[0-9]+(?:\.[0-9]+)?\s*(?:g|[gmt]i?b)\s*"


def _gpu(name: str) -> Gpu:
    """The preset of that name.

    Raises:
        KvcalcError: As `load_gpu`; of a size, how to give one.
    """
    from kvcalc.catalog.gpus import load_gpu  # noqa: PLC0415 - only where a GPU is named

    try:
        return load_gpu(name, (app_dir(),))
    except KvcalcError as error:
        if error.code != "unknown_gpu" or not re.fullmatch(_SIZE, name, re.IGNORECASE):
            raise
    raise KvcalcError(
        "unknown_gpu", f"--gpu {shown(name)} is a size, not a name",
        "--gpu-memory SIZE plans a GPU of that memory; kvcalc gpus --min-memory SIZE lists some",
    )  # fmt: skip


def storage_of(
    model: Model, kv_dtype: str, k_dtype: str | None, v_dtype: str | None, dtype: str | None
) -> Storage:
    """K's and V's formats; `auto` is 2 bytes in the model's own 16-bit type.

    Raises:
        KvcalcError: "unknown_dtype".
    """
    own = model.dtype if dtype is None else dtype
    if element(own, "--dtype").key not in {"bf16", "fp16", "fp32"}:
        raise KvcalcError(
            "unknown_dtype", f"--dtype {shown(own)}: a model computes in bf16, fp16 or fp32",
            "--kv-dtype is the cache's format",
        )  # fmt: skip
    auto = own if own in {"bf16", "fp16"} else "bf16"
    return storage(auto if kv_dtype == "auto" else kv_dtype, _auto(k_dtype), _auto(v_dtype), own)


def _auto(name: str | None) -> str | None:
    return None if name in {None, "auto"} else name


def weights_of(model: Model, weights: str | None, weight_bytes: Count | None) -> WeightInfo:
    """The model's weights: as stored, in the format asked for, or as many bytes as given.

    Raises:
        KvcalcError: "usage" for both options; "unknown_dtype"; "usage" without a parameter count.
    """
    if weights is not None and weight_bytes is not None:
        raise KvcalcError(
            "usage", "--weights and --weight-bytes say the same thing", "give one of them"
        )
    parameters = model.parameters or model.stored_parameters
    if weight_bytes is not None:
        given = parse_bytes(weight_bytes, "--weight-bytes")
        bits = 8 * given / parameters if parameters else None
        return WeightInfo(given, bits, (WeightType("as given", given),), "exact")
    stored = model.weights
    if weights is None or weights == "stored":
        if stored is not None and stored.bytes is not None:
            count = model.stored_parameters or parameters
            bits = 8 * stored.bytes / count if count else None
            types = tuple(WeightType(*pair) for pair in stored.types)
            low, high = stored.low_bytes, stored.high_bytes
            return WeightInfo(
                stored.bytes, bits, types or (WeightType(stored.dtype, stored.bytes),),
                "exact" if low is None else "estimated", low, high, stored.dtype,
            )  # fmt: skip
        if parameters is None:
            return WeightInfo(None, None, (), "exact")
        weights = stored.dtype if stored is not None else "bf16"
        if not _is_weight_format(weights):  # the checkpoint's own, whose size nothing tells
            return WeightInfo(None, None, (), "exact", None, None, weights)
    return _formatted(model, weights, parameters)


def _is_weight_format(name: str) -> bool:
    from kvcalc.core.weight_formats import weight_format  # noqa: PLC0415

    try:
        weight_format(name)
    except KvcalcError:
        return False
    return True


def _formatted(model: Model, weights: str, parameters: int | None) -> WeightInfo:
    from kvcalc.core.weight_formats import MIX, weight_bytes, weight_format  # noqa: PLC0415

    fmt = weight_format(weights)
    if fmt.keeps == MIX:
        from kvcalc.core.gguf_shape import gguf_file  # noqa: PLC0415 - GGUF types alone

        file = gguf_file(model, fmt.key)
        if file is not None:
            return WeightInfo(
                file.bytes, 8 * file.bytes / file.elements,
                tuple(WeightType(*pair) for pair in file.types),
                "estimated", file.low_bytes, file.high_bytes, fmt.key,
            )  # fmt: skip
    if parameters is None:
        raise KvcalcError(
            "usage", f"--weights {weights}: {model.id} has no parameter count",
            "give --parameters, or the size itself as --weight-bytes",
        )  # fmt: skip
    embedding = model.weights.embedding_elements if model.weights else None
    made = weight_bytes(fmt, parameters=parameters, embedding_elements=embedding)
    estimated = made.basis != "exact"
    return WeightInfo(
        made.bytes,
        float(made.bits_per_weight),
        tuple(WeightType(t, b) for t, b in made.types),
        made.basis,
        made.low_bytes if estimated else None,
        made.high_bytes if estimated else None,
        fmt.key,
    )


def context_of(model: Model, text: Count, *, allow_long: bool, option: str = "-c") -> int:
    """A context within the model's maximum.

    Raises:
        KvcalcError: "usage"; "context_too_long" unless `allow_long`.
    """
    most = model.max_context_tokens
    if str(text).lower() in {"auto", "max", "-1"}:  # vLLM's and others' word for the longest
        named = f"the model's maximum is {option} {most}; " if most is not None else ""
        raise KvcalcError(
            "usage", f"{option} {text}: name the tokens",
            f"{named}kvcalc fit --solve context finds the longest that fits",
        )  # fmt: skip
    tokens = parse_count(text, option)
    if most is not None and tokens > most and not allow_long:
        typed = f"{option} {text}" if str(text) != str(tokens) else option
        is_ = f"{typed} is {tokens:,} tokens"
        raise KvcalcError(
            "context_too_long", f"{is_}; {model.id} ends at {most:,}",
            "--allow-long-context computes it all the same",
        )  # fmt: skip
    return tokens


def default_context(model: Model) -> int:
    """4,096 tokens, or the model's maximum if that is smaller."""
    return min(DEFAULT_CONTEXT, model.max_context_tokens or DEFAULT_CONTEXT)


def parallel_of(
    tp: Count = 1,
    pp: Count = 1,
    dp: Count = 1,
    dcp: Count = 1,
    ep: Count = 1,
    pp_layers: Count | Sequence[Count] = (),
) -> Parallel:
    """The parallelism of --tp --pp --dp --dcp --ep; --pp-layers alone say how many stages.

    Raises:
        KvcalcError: "usage".
    """
    sizes = {"--tp": tp, "--pp": pp, "--dp": dp, "--dcp": dcp, "--ep": ep}
    values = {}
    for option, text in sizes.items():
        value = parse_count(text, option)
        if value > 65_536:
            raise KvcalcError("usage", f"{option} is {value:,}", "the most is 65,536")
        values[option[2:]] = value
    given = [pp_layers] if isinstance(pp_layers, (int, str)) else pp_layers
    layers = tuple(
        parse_count(part, "--pp-layers")
        for n in given for part in (n.split(",") if isinstance(n, str) else (n,))
    )  # fmt: skip
    if layers and values["pp"] == 1:
        values["pp"] = len(layers)
    return Parallel(**values, pp_layers=layers)


def prefix_copies_of(copies: Count | None, prefix: Count | None) -> int:
    """--prefix-copies: how many different prefixes the requests begin with.

    Raises:
        KvcalcError: "usage" without a --shared-prefix.
    """
    if copies is None:
        return 1
    if prefix is None:
        raise KvcalcError(
            "usage", "--prefix-copies needs --shared-prefix", "how many tokens does a prefix have?"
        )
    return parse_count(copies, "--prefix-copies")


def version_of(version: object) -> str | None:
    """--engine-version as text; JSON's 0.16 is a release too.

    Raises:
        KvcalcError: "usage" for what is neither a text nor a number.
    """
    if version is None or isinstance(version, str):
        return version
    if isinstance(version, (int, float)) and not isinstance(version, bool):
        return str(version)
    raise KvcalcError(
        "usage", f"--engine-version is {shown(version)}", "a text like 0.16.0 or b7500"
    )


def textbook_only(engine: str, version: str | None, settings: Mapping[str, object] | None) -> None:
    """Check that no engine's rules are asked for where only the textbook's are implemented.

    Raises:
        KvcalcError: "unknown_engine"; "unknown_setting"; "usage" for a version without an engine.
    """
    if str(engine).lower() == "none" and version is None and not settings:
        return
    from kvcalc.engines.registry import engine_of, settings_of  # noqa: PLC0415 - seldom asked

    found = engine_of(engine)
    if found.id != "none":
        raise KvcalcError(
            "unknown_engine", f"the budget of {found.id} is not in this version of kvcalc",
            "--engine none gives the textbook's; kvcalc size --engine knows its storage",
        )  # fmt: skip
    settings_of(found, settings or {})
    raise KvcalcError("usage", "--engine-version needs an engine", "the textbook has none")
