"""Coefficients of the engines' budgets: evidence, the user's own files, broken ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.engines.coefficients import coefficients, look_in
from kvcalc.engines.registry import engine_of, settings_of
from kvcalc.engines.rules import rules_for
from tests.engines.test_vllm_budget import plan

GIB = 2**30
KNOWN = coefficients("vllm", ())
PROFILE = """
[coefficients.non_torch]
value = 0.5
unit = "GiB"
evidence = "my log"
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A user's folder with an engines/vllm.toml to be written; forgotten afterwards."""
    (tmp_path / "engines").mkdir()
    yield tmp_path / "engines" / "vllm.toml"
    look_in(())


def test_every_coefficient_has_evidence() -> None:
    for found in KNOWN.values():
        assert found.low <= found.value <= found.high
        assert found.evidence
        assert found.sources


def test_a_users_file_wins(own: Path) -> None:
    own.write_text(PROFILE)
    found = coefficients("vllm", (str(own.parents[1]),))
    assert found["non_torch"].bytes() == (GIB // 2, GIB // 2, GIB // 2)
    assert found["non_torch"].basis == "measured"
    assert found["graph"] == KNOWN["graph"]


def test_a_measured_profile_reaches_the_budget(own: Path) -> None:
    """0.5 GiB outside PyTorch, communication included, on every platform."""
    own.write_text(PROFILE)
    look_in((str(own.parents[1]),))
    rules = rules_for("vllm")
    assert rules is not None
    for gpu in ("h100-sxm", "radeon-ai-pro-r9700"):
        budget = rules.ranks(plan("llama-3.1-8b", gpu))[0].budget
        other = next(line for line in budget if line.item == "other")
        assert (other.bytes, other.basis, other.note) == (-GIB // 2, "measured", "my log")


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        '[coefficients.graph]\nvalue = "much"',
        "[coefficients.graph]\nvalue = 1\nlow = 2",
        '[coefficients.graph]\nvalue = 1\nunit = "GB"',
        "coefficients = 1",
    ],
)
def test_a_broken_file_is_named(own: Path, text: str) -> None:
    own.write_text(text)
    with pytest.raises(KvcalcError) as error:
        coefficients("vllm", (str(own.parents[1]),))
    assert error.value.code == "invalid_preset"
    assert "vllm.toml" in error.value.message


def test_settings_of_vllm() -> None:
    given = {
        "max-num-seqs": "1k", "enforce_eager": "true", "cudagraph_capture_sizes": "1, 2,4",
        "kv_cache_memory_bytes": "24GiB",
    }  # fmt: skip
    assert settings_of(engine_of("vllm"), given) == {
        "max_num_seqs": 1024, "enforce_eager": True, "cudagraph_capture_sizes": "1,2,4",
        "kv_cache_memory_bytes": 24 * GIB,
    }  # fmt: skip
    with pytest.raises(KvcalcError) as error:
        settings_of(engine_of("vllm"), {"max_num_seq": 1})
    assert "max_num_seqs" in (error.value.hint or "")
