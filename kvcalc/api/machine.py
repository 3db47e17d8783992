"""How many GPUs split the model: what 8xh100, --gpus and --tp say together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import parse_count
from kvcalc.shape import Count

#: Ranks beyond this are a typing error.
_MOST = 65_536


def machine_text(ids: Iterable[str]) -> str:
    """GPUs in rank order as --gpu takes them: 2xrtx3090+rtx4090."""
    runs = ((name, len(list(same))) for name, same in groupby(ids))
    return "+".join(name if n == 1 else f"{n}x{name}" for name, n in runs)


def gpu_count(named: int | None, gpus: Count | None, tp: Count | None) -> int:
    """Tensor-parallel GPUs: of 8xh100, --gpus 8 and --tp 8 each is enough, and all must agree.

    Raises:
        KvcalcError: "usage".
    """
    said = {
        "--gpu COUNTxNAME": named,
        "--gpus": None if gpus is None else parse_count(gpus, "--gpus"),
        "--tp": None if tp is None else parse_count(tp, "--tp"),
    }
    counts = {option: n for option, n in said.items() if n is not None}
    for option, n in counts.items():
        if n > _MOST:
            raise KvcalcError("usage", f"{option} is {n:,}", f"the most is {_MOST:,}")
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{option} {n}" for option, n in counts.items())
        raise KvcalcError("usage", f"{text}: how many GPUs?", "say it once; every GPU splits it")
    return next(iter(counts.values()), 1)
