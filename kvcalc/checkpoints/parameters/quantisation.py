"""A config's quantization_config as a layout of the weights it stores."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown
from kvcalc.core.weight_formats import WeightFormat, weight_format

#: Methods whose stored size does not follow from what their config says.
REFUSED = (
    "aqlm", "auto-round", "autoround", "bitnet", "eetq", "exl2", "exl3", "fp_quant", "higgs", "hqq",
    "quanto", "quark", "spqr", "sinq", "torchao", "vptq",
)  # fmt: skip
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16"}


class Scheme(NamedTuple):
    """How one quantised matrix [out, in] is stored, and which modules are not.

    `group` weights along the input and along the output share a scale and a zero point; 0 is the
    whole side. Bits are of one weight, one scale, one zero point; bytes are beside every matrix
    and beside every input.
    """

    key: str
    bits: int
    group: tuple[int, int] = (0, 0)
    scale_bits: int = 32
    zero_bits: int = 0
    matrix_bytes: int = 0
    input_bytes: int = 0
    keep: tuple[str, ...] = ()
    head: bool = False
    experts_only: bool = False
    #: Whether the config says all of it: bitsandbytes adds tables, recipes differ in their scales.
    exact: bool = True

    def matrix(self, rows: int, cols: int) -> int:
        """Bytes of one matrix of `rows` outputs and `cols` inputs."""
        along, across = (size or side for size, side in zip(self.group, (cols, rows), strict=True))
        groups = -(-cols // along) * -(-rows // across)
        packed = -(-rows * cols * self.bits // 8) + -(-groups * self.zero_bits // 8)
        return packed + groups * self.scale_bits // 8 + self.matrix_bytes + cols * self.input_bytes

    @property
    def weight_bits(self) -> Fraction:
        """Bits of a weight with its share of scale and zero point, where groups are bounded."""
        along, across = self.group
        bounded = along * across
        share = Fraction(self.scale_bits + self.zero_bits, bounded) if bounded else Fraction(0)
        return self.bits + share


def quantisation_of(config: dict[str, Any]) -> dict[str, Any] | None:
    """The quantization_config of a config or of the text model in it."""
    for at in (config, config.get("text_config"), config.get("llm_config")):
        if isinstance(at, dict):
            for name in ("quantization_config", "compression_config"):
                if isinstance(at.get(name), dict):
                    found: dict[str, Any] = at[name]
                    return found
    return None


def plain_dtype(config: dict[str, Any]) -> str | None:
    """The 16- or 32-bit dtype that a config names: "bf16", or None."""
    for at in (config, config.get("text_config")):
        if isinstance(at, dict):
            for name in ("dtype", "torch_dtype"):
                value = at.get(name)
                if isinstance(value, str) and value.removeprefix("torch.") in _DTYPES:
                    return _DTYPES[value.removeprefix("torch.")]
    return None


def scheme_of(config: dict[str, Any]) -> Scheme | None:
    """The layout of a config's quantised weights, or None where it has no quantization_config.

    Raises:
        KvcalcError: "unknown_dtype" naming a method or a variation that is not understood.
    """
    q = quantisation_of(config)
    if q is None:
        return None
    method = str(q.get("quant_method", "")).lower()
    if "quantization" in q and isinstance(q["quantization"], dict):  # hf_quant_config's form
        q = {**q["quantization"], "quant_method": "modelopt"}
        method = "modelopt"
    reader = _READERS.get(method)
    if reader is None:
        if not method and (q.get("load_in_4bit") or q.get("load_in_8bit")):
            return _bitsandbytes(q)
        known = "is not sized from its config" if method in REFUSED else "is not known"
        raise _unknown(f'method "{shown(method)}" {known}')
    return reader(q)


def format_of_config(config: dict[str, Any]) -> WeightFormat | None:
    """The weight format that a config says its checkpoint has, or None where it says nothing.

    Raises:
        KvcalcError: "unknown_dtype" naming a method or a variation that is not understood.
    """
    scheme = scheme_of(config)
    if scheme is None:
        name = plain_dtype(config)
        return None if name is None else weight_format(name)
    return weight_format(scheme.key)._replace(bits=scheme.weight_bits)


def _unknown(what: str) -> KvcalcError:
    return KvcalcError(
        "unknown_dtype", f"quantization_config: {what}", "give the size with --weight-bytes"
    )


def _keep(q: dict[str, Any], *names: str) -> tuple[str, ...]:
    """The modules left alone, under any of the names."""
    found: list[str] = []
    for name in names:
        listed = q.get(name)
        if isinstance(listed, (list, tuple)):
            found += [entry for entry in listed[:100_000] if isinstance(entry, str)]
    return tuple(found)


def _int(q: dict[str, Any], name: str, default: int, allowed: tuple[int, ...] = ()) -> int:
    value = q.get(name, default)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or (allowed and value not in allowed):
        raise _unknown(f"{name} {shown(value)}")
    if not -1 <= value <= 2**20:
        raise _unknown(f"{name} {shown(value)}")
    return value


def _awq(q: dict[str, Any]) -> Scheme:
    bits = _int(q, "bits", _int(q, "w_bit", 4), (4,))
    group = _int(q, "group_size", _int(q, "q_group_size", 128))
    zero = bits if q.get("zero_point", True) is not False else 0
    keep = _keep(q, "modules_to_not_convert")
    return Scheme("awq", bits, (max(group, 0), 1), 16, zero, keep=keep)


def _gptq(q: dict[str, Any]) -> Scheme:
    bits = _int(q, "bits", 4, (2, 3, 4, 8))
    group, marlin = _int(q, "group_size", 128), q.get("checkpoint_format") == "marlin"
    key = "gptq_int8" if bits == 8 else "gptq"
    return Scheme(
        key, bits, (max(group, 0), 1), 16, 0 if marlin else bits,
        input_bytes=0 if marlin else 4,  # g_idx is stored whether or not desc_act uses it
        keep=_keep(q, "modules_to_not_convert"), head=q.get("lm_head") is True,
        exact=not q.get("dynamic") and not q.get("modules_in_block_to_quantize"),
    )  # fmt: skip


def _fp8(q: dict[str, Any]) -> Scheme:
    keep = _keep(q, "modules_to_not_convert", "ignored_layers", "ignore")
    block = q.get("weight_block_size")
    if block is None:
        scales = 8 if q.get("activation_scheme") == "static" else 4
        return Scheme("fp8", 8, scale_bits=0, matrix_bytes=scales, keep=keep)
    if not isinstance(block, (list, tuple)) or len(block) != 2:
        raise _unknown(f"weight_block_size {shown(block)}")
    sizes = {"rows": block[0], "cols": block[1]}
    rows, cols = _int(sizes, "rows", 128), _int(sizes, "cols", 128)
    if rows < 1 or cols < 1:
        raise _unknown(f"weight_block_size {shown(block)}")
    return Scheme("fp8_block", 8, (cols, rows), keep=keep)


def _fbgemm(q: dict[str, Any]) -> Scheme:
    return Scheme("fp8_channel", 8, (0, 1), keep=_keep(q, "modules_to_not_convert"))


def _mxfp4(q: dict[str, Any]) -> Scheme:
    return Scheme(
        "mxfp4", 4, (32, 1), 8, experts_only=True, keep=_keep(q, "modules_to_not_convert")
    )


def _bitsandbytes(q: dict[str, Any]) -> Scheme:
    keep = _keep(q, "llm_int8_skip_modules")
    if q.get("load_in_8bit") or q.get("_load_in_8bit"):
        return Scheme("bnb_int8", 8, (0, 1), keep=keep, exact=False)
    if not (q.get("load_in_4bit") or q.get("_load_in_4bit")):
        raise _unknown("bitsandbytes with neither load_in_4bit nor load_in_8bit")
    if q.get("bnb_4bit_use_double_quant"):  # 8 bits per 64, and 32 per 256 of those
        return Scheme("nf4_double", 4, (16384, 1), 256 * 8 + 32, keep=keep, exact=False)
    return Scheme("nf4", 4, (64, 1), keep=keep, exact=False)


def _modelopt(q: dict[str, Any]) -> Scheme:
    keep = _keep(q, "ignore", "exclude_modules", "modules_to_not_convert")
    name = str(q.get("quant_algo", "")).upper()
    if name.startswith("NVFP4"):
        return Scheme("nvfp4", 4, (16, 1), 8, matrix_bytes=8, keep=keep)
    if name == "FP8":
        return Scheme("fp8", 8, scale_bits=0, matrix_bytes=8, keep=keep)
    if name == "W4A16_AWQ":
        return Scheme("awq", 4, (_int(q, "group_size", 128), 1), 16, keep=keep, exact=False)
    raise _unknown(f'modelopt algorithm "{shown(name)}" is not known')


def _compressed(q: dict[str, Any]) -> Scheme:
    """compressed-tensors: one kind of weights for all Linear modules that `ignore` leaves."""
    groups = q.get("config_groups")
    kinds = []
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            kinds.append(weights)
    if not kinds or any(_layout(w) != _layout(kinds[0]) for w in kinds):
        raise _unknown("compressed-tensors groups of unequal weights")
    keep, w = _keep(q, "ignore"), kinds[0]
    bits, group = _int(w, "num_bits", 8, (4, 8)), _int(w, "group_size", 128)
    strategy, floats = w.get("strategy") or "tensor", w.get("type") == "float"
    zero = 0 if w.get("symmetric", True) or floats else bits
    head = not any(matches(entry, "lm_head") for entry in keep)
    made: Scheme | None = None
    if floats and bits == 4 and group in (16, 32):
        key, beside = ("nvfp4", 8) if group == 16 else ("mxfp4", 0)
        made = Scheme(key, 4, (group, 1), 8, matrix_bytes=beside)
    elif strategy == "block" and floats:
        made = _fp8({"weight_block_size": w.get("block_structure") or [128, 128]})
    elif strategy == "group" and not floats:
        packed = "w4a16" if bits == 4 else "w8a16"
        made = Scheme(packed, bits, (max(group, 0), 1), 16, zero, matrix_bytes=16)
    elif strategy == "channel":
        key = "fp8_channel" if floats else "int8" if bits == 8 else "w4a16"
        made = Scheme(key, bits, (0, 1), 16 if not floats else 32, zero)
    elif strategy == "tensor" and bits == 8:
        made = Scheme("fp8" if floats else "int8", 8, scale_bits=0, matrix_bytes=8)
    if made is None:
        raise _unknown(f"compressed-tensors weights of {bits} bits by {shown(strategy)}")
    return made._replace(keep=keep, head=head, exact=False)


def _layout(w: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(str(w.get(k)) for k in ("num_bits", "type", "strategy", "group_size", "symmetric"))


def matches(entry: str, path: str) -> bool:
    """Whether a module at `path` is one that `entry` names: a name, a part, a glob or a simple re.

    Regular expressions are not run: a config may hold any. `re:` entries of dots, stars and one
    alternative are read as globs; others match nothing.
    """
    return any(_glob(pattern, path) for pattern in _globs(entry))


def _globs(entry: str) -> list[str]:
    """An entry as globs over a whole path."""
    text = entry.removeprefix("re:")
    if text == entry:
        return [text, f"{text}.*", f"*.{text}", f"*.{text}.*"]
    text = text.strip("^$").replace("\\.", ".").replace(".*", "*")
    before, bar, rest = text.partition("(")
    inner, closed, after = rest.partition(")")
    options = [f"{before}{x}{after}" for x in inner.split("|")[:64]] if bar and closed else [text]
    return [x for x in options if not set(x) & set("()[]{}|+?\\")]


def _glob(pattern: str, text: str) -> bool:
    """Stars match anything; one pass, so that no pattern takes long."""
    first, *rest = pattern.split("*")
    if not rest:
        return first == text
    if not text.startswith(first):
        return False
    at, last = len(first), rest.pop()
    for part in rest:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)


_READERS = {
    "awq": _awq,
    "gptq": _gptq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
    "compressed_tensors": _compressed,
}
