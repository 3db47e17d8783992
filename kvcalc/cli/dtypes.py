"""`kvcalc dtypes`."""

from __future__ import annotations

from kvcalc.cli.lookup import run_lookup
from kvcalc.cli.spec import Spec

SPEC = Spec(
    "dtypes",
    "the storage formats of K and V",
    ("names",),
    argument=("[show] NAME", "one format; none lists them all", "dtypes"),
    rest=True,
    examples=(("kvcalc dtypes", "bits and block bytes of each"),),
)
run = run_lookup("dtypes")
