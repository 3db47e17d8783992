"""Storage formats of weights by name, and what a number of parameters takes in one of them.

Bits count the scales, zero points and block headers of the format. Sources: safetensors layouts of
AutoAWQ, AutoGPTQ, compressed-tensors, gpt-oss and DeepSeek; OCP MX; NVFP4; bitsandbytes; ggml's
block types and the whole-model bits that llama.cpp's quantize prints for Llama-3.1-8B.

Every query imports this module: the tables are constants, and a format is built when it is named.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.dtypes import GGML_ENGINES
from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.units import cdiv, shown

#: What a format leaves at 16 bits; a mix (GGUF) is known by its whole-model bits only.
NOTHING, EMBEDDINGS, ALL_BUT_EXPERTS, MIX = "nothing", "embeddings", "all but experts", "mix"
#: Where the embeddings' size is not known, the high figure keeps one weight in so many at 16 bits:
#: they are 3 % of Llama-3.1-70B, 13 % of the 8B.
_HEAD_SHARE = 8


class WeightFormat(NamedTuple):
    """One storage format.

    `bits` are those of a quantised weight, or of the whole model for a mix. `keeps` says what stays
    at 16 bits: nothing, the embeddings (with head, norms, routers, biases), or all but experts.
    """

    key: str
    bits: Fraction
    keeps: str
    aliases: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    note: str = ""
    #: How far checkpoints of this format range below and above the rule, in 1/1000; of a mix, the
    #: leanest and the fattest model's bits in 1/10000.
    span: tuple[int, int] = (5, 10)


class WeightEstimate(NamedTuple):
    """Bytes of a model's weights; `types` add up to `bytes`."""

    bytes: int
    low_bytes: int
    high_bytes: int
    basis: str
    bits_per_weight: float
    types: tuple[tuple[str, int], ...]
    note: str = ""


_GPU = ("vllm", "sglang", "transformers", "tensorrt-llm")
_VS, _BNB = ("vllm", "sglang"), ("transformers", "vllm")
#: key: (bits as a ratio, what stays at 16 bits, aliases, engines, note). Scales per output channel
#: are spread over 4,096 inputs here; the tensors of a config give them exactly.
_FORMATS: dict[str, tuple[int, int, str, tuple[str, ...], tuple[str, ...], str]] = {
    "bf16": (16, 1, NOTHING, ("bfloat16",), _GPU, "16-bit brain float"),
    "fp16": (16, 1, NOTHING, ("f16", "float16", "half"), _GPU, "16-bit float"),
    "fp32": (32, 1, NOTHING, ("f32", "float32", "float"), _GPU, "32-bit float"),
    "fp8": (8, 1, EMBEDDINGS,
            ("f8", "fp8_e4m3", "fp8_e4m3fn", "float8_e4m3fn", "fp8_per_tensor"), _GPU,
            "e4m3, one scale per tensor"),
    "fp8_channel": (1025, 128, EMBEDDINGS,
                    ("fp8_dynamic", "fp8_per_channel", "fbgemm_fp8", "ptpc_fp8"), _GPU,
                    "e4m3, an fp32 scale per output channel"),
    "fp8_block": (4097, 512, EMBEDDINGS,
                  ("fp8_128x128", "fp8_block_128x128", "deepseek_fp8", "blockwise_fp8"), _VS,
                  "e4m3, an fp32 scale per 128 × 128"),
    "int8": (8, 1, EMBEDDINGS, ("i8", "w8a8", "w8a8_int8", "int8_w8a8", "smoothquant"), _GPU,
             "8-bit integer, one scale per tensor or output channel"),
    "int4": (4, 1, NOTHING, ("i4", "uint4", "4bit", "4_bit"), (),
             "flat 4 bits for every weight, the textbook's; real checkpoints are larger"),
    "awq": (133, 32, EMBEDDINGS, ("awq_int4", "int4_awq", "awq_marlin", "awq_g128"), _GPU,
            "int4, fp16 scale and 4-bit zero per 128"),
    "gptq": (133, 32, EMBEDDINGS,
             ("gptq_int4", "int4_gptq", "gptq_marlin", "gptq_g128", "gptq_4bit"), _GPU,
             "int4, fp16 scale and 4-bit zero per 128; without the group index"),
    "gptq_g_idx": (533, 128, EMBEDDINGS, ("gptq_act_order", "gptq_desc_act"), _GPU,
                   "as gptq, with an int32 group index per input"),
    "gptq_int8": (131, 16, EMBEDDINGS, ("gptq_8bit", "int8_gptq"), _GPU,
                  "int8, fp16 scale and 8-bit zero per 128"),
    "w4a16": (33, 8, EMBEDDINGS,
              ("compressed_tensors", "w4a16_g128", "int4_w4a16", "w4a16_int4"), _VS,
              "int4 symmetric, a 16-bit scale per 128"),
    "w8a16": (65, 8, EMBEDDINGS, ("int8_w8a16",), _VS, "int8 symmetric, a 16-bit scale per 128"),
    "mxfp4": (17, 4, ALL_BUT_EXPERTS, ("fp4", "mx_fp4"), _GPU,
              "e2m1, an e8m0 scale per 32; a mixture of experts keeps all but the experts"),
    "mxfp8": (33, 4, EMBEDDINGS, ("mx_fp8",), _VS, "e4m3, an e8m0 scale per 32"),
    "nvfp4": (9, 2, EMBEDDINGS, ("nv_fp4", "modelopt_fp4"), ("vllm", "sglang", "tensorrt-llm"),
              "e2m1, an e4m3 scale per 16; which layers stay 16-bit differs per checkpoint"),
    "nf4": (9, 2, EMBEDDINGS,
            ("bnb", "bitsandbytes", "bnb_4bit", "bnb_nf4", "bnb_fp4", "bitsandbytes_nf4"), _BNB,
            "bitsandbytes 4-bit, an fp32 scale per 64"),
    "nf4_double": (8452, 2048, EMBEDDINGS,
                   ("bnb_nf4_double", "bnb_double_quant", "nf4_double_quant", "qlora"), _BNB,
                   "bitsandbytes 4-bit, an 8-bit scale per 64, an fp32 scale per 256 of those"),
    "bnb_int8": (1025, 128, EMBEDDINGS, ("llm_int8", "bnb_8bit", "bitsandbytes_int8"), _BNB,
                 "bitsandbytes 8-bit, an fp32 scale per row"),
}  # fmt: skip
#: Whole-model bits of GGUF file types in 1/10000: the leanest model's, Llama-3.1-8B's, and those of
#: a small or a mixture-of-experts model, whose large share of embeddings and routers costs more.
_MIXES: dict[str, tuple[int, int, int]] = {
    "q8_0": (85000, 85008, 86000),
    "q6_k": (65625, 65633, 71000),
    "q5_k_m": (56000, 57036, 61000),
    "q5_k_s": (55000, 55704, 59000),
    "q5_1": (60000, 60400, 63000),
    "q5_0": (55000, 55700, 59000),
    "q4_k_m": (47500, 48944, 54000),
    "q4_k_s": (45500, 46672, 51000),
    "q4_1": (50000, 51100, 55000),
    "q4_0": (45000, 46400, 50000),
    "q3_k_l": (42000, 42979, 48000),
    "q3_k_m": (38000, 39960, 45000),
    "q3_k_s": (34500, 36429, 42000),
    "q2_k": (27000, 31593, 39000),
    "q2_k_s": (26500, 29697, 37000),
    "iq4_nl": (45000, 46818, 51000),
    "iq4_xs": (42500, 44597, 50000),
    "iq3_m": (35500, 37628, 45000),
    "iq3_s": (34400, 36606, 43000),
    "iq3_xs": (32500, 34977, 42000),
    "iq3_xxs": (30600, 32548, 41000),
    "iq2_m": (26500, 29294, 38000),
    "iq2_s": (25000, 27403, 37000),
    "iq2_xs": (23100, 25882, 36000),
    "iq2_xxs": (20600, 23824, 34000),
    "iq1_m": (17500, 21460, 32000),
    "iq1_s": (15600, 20042, 31000),
    "tq2_0": (20600, 24000, 35000),
    "tq1_0": (16800, 21000, 33000),
    "mxfp4_moe": (42500, 45000, 85100),
}
#: What a recipe leaves unquantised differs most for NVFP4: 17 checkpoints' loads against the rule.
_SPANS = {"nvfp4": (30, 60)}
_ALIASES = {alias: key for key, row in _FORMATS.items() for alias in row[3]}


def weight_formats() -> tuple[WeightFormat, ...]:
    """Every format, in the order of the tables."""
    return tuple(_build(key) for key in (*_FORMATS, *_MIXES))


def weight_format(name: str, option: str = "--weights") -> WeightFormat:
    """The format called `name`; case, blanks, `-` and `_` do not matter.

    Raises:
        KvcalcError: "unknown_dtype", naming the nearest ones.
    """
    word = name.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(name, str) else ""
    key = _ALIASES.get(word, word.removeprefix("gguf_"))
    if key in _FORMATS or key in _MIXES:
        return _build(key)
    names = [*_FORMATS, *_MIXES]
    close = nearest(word, [*names, *_ALIASES])
    near = f"nearest: {', '.join(close)}; " if close else ""
    raise KvcalcError(
        "unknown_dtype",
        f'{option}: no weight format "{shown(name)}"',
        f"{near}all: kvcalc dtypes",
    )


def _build(key: str) -> WeightFormat:
    if key in _MIXES:
        low, typical, high = _MIXES[key]
        note = "GGUF file type, a mix of block types; exact from a .gguf file"
        bits = Fraction(typical, 10_000)
        return WeightFormat(key, bits, MIX, (f"gguf_{key}",), GGML_ENGINES, note, (low, high))
    top, bottom, keeps, aliases, engines, note = _FORMATS[key]
    span = _SPANS.get(key, (5, 10))
    return WeightFormat(key, Fraction(top, bottom), keeps, aliases, engines, note, span)


def weight_bytes(
    fmt: WeightFormat,
    *,
    parameters: int,
    embedding_elements: int | None = None,
    unquantised: int | None = None,
    expert_elements: int | None = None,
) -> WeightEstimate:
    """Bytes of `parameters` weights in `fmt`.

    Exact for 16 and 32 bits, and where a format that quantises experts only is given their number.

    Args:
        fmt: The storage format.
        parameters: All weights.
        embedding_elements: Those of the embeddings and of an output head of its own.
        unquantised: All that stay at 16 bits, embeddings included; wins over the former.
        expert_elements: Weights of routed experts without biases, for formats that quantise
            only those.

    Raises:
        KvcalcError: "usage" if a part is negative or larger than the whole.
    """
    for part in (embedding_elements, unquantised, expert_elements):
        if part is not None and not 0 <= part <= parameters:
            message = f"{part:,} is no part of {parameters:,} parameters"
            raise KvcalcError("usage", message, "a part of the weights is at most all of them")
    flat = _part(parameters, fmt.bits)
    if fmt.keeps == MIX:
        low, high = (_part(parameters, Fraction(bits, 10_000)) for bits in fmt.span)
        return _estimate(fmt, parameters, (flat, 0), low, high)
    if fmt.keeps == NOTHING and fmt.bits >= 16:
        return _estimate(fmt, parameters, (flat, 0), flat, flat)
    kept, exact = unquantised, False
    if kept is None and fmt.keeps == ALL_BUT_EXPERTS and expert_elements is not None:
        kept, exact = parameters - expert_elements, True
    elif kept is None:
        kept = embedding_elements
    if kept is None or fmt.keeps == NOTHING:
        share = cdiv(parameters, _HEAD_SHARE) if kept is None else kept
        high = _part(parameters - share, fmt.bits) + 2 * share
        return _estimate(fmt, parameters, (flat, 0), flat, high)
    parts = (_part(parameters - kept, fmt.bits), 2 * kept)
    total, (below, above) = sum(parts), (0, 0) if exact else fmt.span
    low, high = total - total * below // 1000, total + cdiv(total * above, 1000)
    return _estimate(fmt, parameters, parts, low, high)


def _part(elements: int, bits: Fraction) -> int:
    """Bytes of `elements` at `bits` each, rounded up to a whole byte."""
    return cdiv(elements * bits.numerator, 8 * bits.denominator)


def _estimate(
    fmt: WeightFormat, parameters: int, parts: tuple[int, int], low: int, high: int
) -> WeightEstimate:
    """The figure: bytes in the format and at 16 bits, exact if the bounds meet."""
    total = sum(parts)
    types = ((fmt.key, parts[0]), ("bf16", parts[1])) if parts[1] else ((fmt.key, parts[0]),)
    basis = "exact" if low == high else "estimated"
    bits = round(8 * total / parameters, 4) if parameters else 0.0
    return WeightEstimate(total, low, high, basis, bits, types, fmt.note)
