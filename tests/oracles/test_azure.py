"""The README's table of what policies waste on the Azure traces, computed again where they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kvcalc
from kvcalc.core.results.simulate import SimulateResult
from kvcalc.core.units import percent

README = Path(__file__).parent.parent.parent / "README.md"
TRACES = ("conv", "code")
#: Rows of the table in its order: percentages of naive, pow2, exact and paged.
ROWS = [
    re.findall(r"[\d.]+%", line)
    for line in README.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| .*\| (at full length|over time) \|", line)
]


def test_the_table_has_its_rows() -> None:
    assert [len(row) for row in ROWS] == [4, 4, 4, 4]


@pytest.mark.parametrize("name", TRACES)
def test_what_each_policy_wastes(name: str, shared: Path) -> None:
    trace = str(shared / "traces" / "azure-2023" / f"AzureLLMInferenceTrace_{name}.csv")
    full, over_time = ROWS[2 * TRACES.index(name) :][:2]

    found = kvcalc.waste("llama-3.1-8b", trace=trace, max_context=16_384)
    assert [percent(p.waste_fraction) for p in found.policies] == full

    shares = []
    for policy in ("naive", "pow2", "exact", "paged"):
        made = kvcalc.simulate(
            "llama-3.1-8b", trace=trace, gpu="a100-40", max_context=16_384, policy=[policy]
        )
        assert isinstance(made, SimulateResult)
        shares.append(percent(1 - made.shares.used_fraction))
    assert shares == over_time
