"""SGLang's share of the memory: what `--mem-fraction-static` is where it is not given.

    fraction = (GPU − reserved) / GPU, rounded to three digits

with what is reserved for activations and graphs by release and GPU. Sources: SGLang 0.4.3, 0.4.9,
0.5.5, 0.5.10 `server_args.py`, 0.5.23 `arg_groups/memory_hook.py` and `cuda_graph_hook.py`; a
change between two of them is dated to the later one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.cache import Latent
from kvcalc.core.plan import Plan
from kvcalc.core.units import MIB
from kvcalc.engines.paging import Release, release_of

NEWEST = "0.5.23"
#: (memory below, in GiB; chunk; captured batch; captured batch from tp 4 on), 0.5.23.
_TIERS = (
    (20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (160, 8192, 256, 512),
    (10**6, 16384, 512, 512),
)  # fmt: skip
#: To 0.5.10, GPUs of 20 to 35 GiB took less.
_OLD_SMALL = (35, 2048, 24, 80)
#: 0.4.9 reserved by GPU alone, in tenths of a GiB: (memory below, fixed, for each of tp · pp).
_OLD_RESERVED = ((35, 28, 1), (90, 95, 5), (160, 120, 5), (10**6, 320, 0))
#: 0.4.3: (tp from, fraction).
_OLDEST = ((16, "0.79"), (8, "0.81"), (4, "0.85"), (2, "0.87"), (1, "0.88"))
#: MiB: constants, a token of a chunk, a request of a captured batch, a captured prefill size.
_FIXED, _TOKEN, _BATCH, _PREFILL_GRAPH = 512, Fraction(3, 2), 2, 8
_LATENT_PREFILL_GRAPHS = 1536
#: GPUs above 60 GiB reserve 10 GiB at least.
_LARGE, _LEAST = 60 * 1024, 10 * 1024
#: Vision towers are weighed against ViT-L/14 (24 layers of 1,024): 12 · L · d².
_VIT = 12 * 24 * 1024**2


class Start(NamedTuple):
    """One start of SGLang with its defaults filled in; memory in MiB where it says so."""

    release: Release
    fraction: Fraction
    #: Where the fraction is a default: the ends between which a vision tower may move it.
    low: Fraction
    high: Fraction
    chunk: int
    graph_batch: int


def start_of(plan: Plan, carveout: int, tower: int) -> Start:
    """The settings in force; `carveout`: bytes that nvidia-smi shows and no program sees.

    `tower`: elements of a vision tower, which makes the fraction smaller.
    """
    release = release_of(plan.version or NEWEST, "sglang")
    s = plan.settings
    seen = (plan.memory.bytes + carveout) // MIB if plan.memory else 0
    chunk, batch = _sizes(plan, release, seen)
    chunk = int(s.get("chunked_prefill_size", chunk))
    wanted = s.get("max_running_requests")
    if wanted is not None and release >= (0, 5, 23):
        batch = min(batch, int(wanted))
    batch = int(s.get("cuda_graph_max_bs", batch))
    given = s.get("mem_fraction_static")
    if given is not None or plan.utilization is not None:
        share = Fraction(str(given)) if given is not None else plan.utilization or Fraction(1)
        return Start(release, share, share, share, chunk, batch)
    if not seen:
        return Start(release, Fraction(1), Fraction(1), Fraction(1), chunk, batch)
    share = _share(plan, release, seen, chunk, batch)
    if not tower:
        return Start(release, share, share, share, chunk, batch)
    if release < (0, 5, 5):
        share *= Fraction(9, 10)
        return Start(release, share, share, share, chunk, batch)
    grown = 1 - Fraction(1, 10) * (Fraction(tower, _VIT) - 1)
    best, least, most = (
        share * Fraction(95, 100) * max(Fraction(4, 5), min(Fraction(21, 20), f))
        for f in (grown, grown - Fraction(1, 20), grown + Fraction(1, 20))
    )
    return Start(release, best, least, most, chunk, batch)


def _sizes(plan: Plan, release: Release, seen: int) -> tuple[int, int]:
    """Chunk and largest captured batch by the GPU's memory in MiB."""
    if not seen:
        return 4096, 160
    tiers = _TIERS
    if release < (0, 5, 23):
        tiers = (_TIERS[0], _OLD_SMALL, *_TIERS[2:])
    _, chunk, few, many = next(tier for tier in tiers if seen < tier[0] * 1024)
    return chunk, few if ranks_of(plan) < 4 else many


def ranks_of(plan: Plan) -> int:
    """tp_size as SGLang counts it: with DP attention all GPUs of a stage."""
    shared = bool(plan.settings.get("enable_dp_attention"))
    return plan.parallel.tp * (plan.parallel.dp if shared else 1)


def _share(plan: Plan, release: Release, seen: int, chunk: int, batch: int) -> Fraction:
    p, tp = plan.parallel, ranks_of(plan)
    ranks, shared = tp * p.pp, bool(plan.settings.get("enable_dp_attention"))
    draft = str(plan.settings.get("speculative_algorithm", "none"))
    if release < (0, 4, 9):
        return Fraction(next(share for least, share in _OLDEST if tp >= least))
    if release < (0, 5, 5):
        fixed, each = next(row[1:] for row in _OLD_RESERVED if seen < row[0] * 1024)
        reserved = Fraction((fixed + each * ranks) * 1024, 10)
        reserved += 2048 * (draft != "none") + 4096 * shared
        return Fraction(round((seen - float(reserved)) / seen, 3)).limit_denominator(1000)
    graphs = not plan.settings.get("disable_cuda_graph")
    reserved = _FIXED + _TOKEN * max(chunk, 2048) + Fraction(ranks * 1024, 8)
    reserved += _BATCH * batch * (graphs or release < (0, 5, 23))
    if shared:
        reserved += batch * p.dp * (3 if batch <= 300 else Fraction(9, 2))
    if release >= (0, 5, 10) and graphs:
        latent = any(isinstance(g.cache, Latent) for g in plan.model.groups)
        reserved += _LATENT_PREFILL_GRAPHS if latent else _PREFILL_GRAPH * prefill_graphs(chunk)
    if seen > _LARGE:
        reserved = max(reserved, Fraction(_LEAST))
    if release < (0, 5, 23) and draft not in {"none", "ngram"}:
        extra = 6144 if draft == "standalone" else 2048 if release < (0, 5, 10) else 4096
        reserved += extra
    return Fraction(round((seen - float(reserved)) / seen, 3)).limit_denominator(1000)


def prefill_graphs(chunk: int) -> int:
    """Sizes that are captured for prefill: 4 to 32 by 4, to 256 by 16, 512 by 32 … by 512."""
    sizes: tuple[int, ...] = (
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
        *range(1280, 4097, 256),
    )  # fmt: skip
    return sum(size <= chunk for size in sizes) + max(chunk - 4096, 0) // 512
