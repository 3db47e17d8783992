"""One start of llama.cpp, ik_llama.cpp or Ollama: every setting in llama.cpp's terms.

The three differ in their settings' names, defaults and reserves; what a context allocates is
llama.cpp's (ik_llama.cpp: its own older caches).
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.plan import Plan
from kvcalc.core.units import GIB, shown

#: Builds from which: windows have a cache of their own; the output layer goes to a GPU first;
#: only the rows that are sampled have logits (ggml-org/llama.cpp#13194, #18148, #23861).
WINDOWS, OUTPUT_FIRST, FEW_OUTPUTS = 5430, 7480, 9480
_NEWEST = 10**6
#: The same by month, for builds that are known by their date alone.
_MONTHS = (((2025, 5), WINDOWS), ((2025, 12), OUTPUT_FIRST), ((2026, 6), FEW_OUTPUTS))
_UBATCH, _BATCH, _MARGIN = 512, 2048, GIB
_OLLAMA_UBATCH = 512
#: Ollama releases with an engine of their own layer order, as recent llama.cpp.
_OLLAMA_NEW = (0, 11)


class Setup(NamedTuple):
    """Settings of a context and of its place, in llama.cpp's terms; None is the default."""

    engine: str
    #: Tokens of all slots; None where the context and the requests decide.
    n_ctx: int | None
    n_seq_max: int | None
    n_ubatch: int
    n_batch: int
    unified: bool
    swa_full: bool
    flash: bool | None
    type_k: str
    type_v: str
    n_gpu_layers: int | None
    host_kv: bool
    shares: tuple[Fraction, ...]
    #: Bytes left free on each GPU.
    margin: int
    margin_note: str
    drafts: int
    output_first: bool
    few_outputs: bool
    mla: int = 3


def setup_of(engine: str, plan: Plan) -> Setup:
    """The plan's settings, read by the engine's own rules.

    Raises:
        KvcalcError: "unknown_setting" for a release that cannot be read.
    """
    if engine == "ollama":
        return _ollama(plan)
    s = plan.settings
    ik = engine == "ik_llama.cpp"
    build = _NEWEST if ik else build_of(plan.version)
    margin = 0
    if not ik and s.get("fit", True) and s.get("n_gpu_layers") is None and build >= OUTPUT_FIRST:
        margin = int(s.get("fit_target", _MARGIN))
    flash = s.get("flash_attn")
    return Setup(
        engine=engine,
        n_ctx=_int(s.get("n_ctx")),
        n_seq_max=_int(s.get("n_seq_max")),
        n_ubatch=int(s.get("n_ubatch", _UBATCH)),
        n_batch=int(s.get("n_batch", _BATCH)),
        unified=ik or bool(s.get("kv_unified", False)),
        swa_full=bool(s.get("swa_full", False)) or build < WINDOWS,
        flash=None if flash is None else bool(flash),
        type_k=str(s.get("type_k", _own(plan.storage.k.key))),
        type_v=str(s.get("type_v", _own(plan.storage.v.key))),
        n_gpu_layers=_int(s.get("n_gpu_layers")),
        host_kv=bool(s.get("no_kv_offload", False)),
        shares=tuple(Fraction(x) for x in str(s["tensor_split"]).split(","))
        if "tensor_split" in s
        else (),
        margin=margin,
        margin_note="--fit keeps it free",
        drafts=int(s.get("spec_draft_n_max", 0)),
        output_first=not ik and build >= OUTPUT_FIRST,
        few_outputs=not ik and build >= FEW_OUTPUTS,
        mla=int(s.get("mla_attn", 3)),
    )


def _ollama(plan: Plan) -> Setup:
    from kvcalc.engines.paging import release_of  # noqa: PLC0415 - the others need it not

    s = plan.settings
    newest = plan.version is None
    release = (99,) if newest else release_of(str(plan.version), "ollama")
    slots = _int(s.get("num_parallel"))
    context = _int(s.get("num_ctx"))
    kind = s.get("kv_cache_type")
    n_ctx = None if context is None else context * (slots or plan.requests)
    flash = s.get("flash_attention")
    return Setup(
        engine="ollama",
        n_ctx=n_ctx,
        n_seq_max=slots if context is None else slots or plan.requests,
        n_ubatch=int(s.get("num_batch", _OLLAMA_UBATCH)),
        n_batch=int(s.get("num_batch", _OLLAMA_UBATCH)),
        unified=False,
        swa_full=release < (0, 7),
        flash=None if flash is None else bool(flash),
        type_k=str(kind or _own(plan.storage.k.key)),
        type_v=str(kind or _own(plan.storage.v.key)),
        n_gpu_layers=_int(s.get("num_gpu")),
        host_kv=False,
        shares=(),
        margin=int(s.get("gpu_overhead", 0)),
        margin_note="OLLAMA_GPU_OVERHEAD",
        drafts=0,
        output_first=release >= _OLLAMA_NEW,
        few_outputs=release >= (0, 30),
    )


def _own(key: str) -> str:
    """The engines' 16 bits are f16, whatever the model's own are."""
    return "f16" if key in {"bf16", "fp16"} else key


def _int(value: object) -> int | None:
    return None if value is None else int(str(value))


def build_of(version: str | None) -> int:
    """The build: "b7500", 7500, or a month like 2025-11; None and a commit are the newest.

    Raises:
        KvcalcError: "unknown_setting" for anything else.
    """
    if version is None:
        return _NEWEST
    word = version.strip().lower()
    match = re.fullmatch(r"b?(\d{3,6})", word)
    if match is not None:
        return int(match[1])
    month = re.fullmatch(r"(20\d\d)-(\d\d)", word)
    if month is not None:
        date = (int(month[1]), int(month[2]))
        return max((build for first, build in _MONTHS if first <= date), default=0)
    if re.fullmatch(r"[0-9a-f]{7,40}", word):
        return _NEWEST
    raise KvcalcError(
        "unknown_setting", f'--engine-version: "{shown(version)}" is no build of llama.cpp',
        "write it like b7500, or a month like 2025-11",
    )  # fmt: skip
