"""Streams of requests: traces from files and standard input, synthetic ones from a short spec."""

from __future__ import annotations

import os

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown
from kvcalc.workloads.synthetic import Synthetic, is_spec
from kvcalc.workloads.trace import Trace, Workload


def open_workload(
    source: str, *, limit: int | None = None, skip_bad: bool = False, seed: int | None = None
) -> Workload:
    """The requests of a file, of standard input ("-"), or of a spec like "poisson:rate=5,…".

    A file of that name wins over a spec.

    Raises:
        KvcalcError: "usage" for a spec that is none, and for what is no name. Files are read when
            they are iterated.
    """
    if not isinstance(source, str) or not source.strip() or "\0" in source:
        raise KvcalcError(
            "usage", f"--trace {shown(source)} is no file",
            "a file, - for stdin, or poisson:rate=5,prompt=1000,output=200",
        )  # fmt: skip
    if is_spec(source) and not os.path.exists(source):
        return Synthetic(source, seed=seed, limit=limit)
    return Trace(source, limit=limit, skip_bad=skip_bad)
