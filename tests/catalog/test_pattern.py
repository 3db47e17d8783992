"""The pattern language: what it reads, what it refuses and where, and its round trip."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.pattern import MAX_LAYERS, parse_pattern, write_pattern
from kvcalc.core.errors import KvcalcError

NAMES = st.sampled_from(["window", "full", "kda", "full-2", "a.b_c"])
LAYERS = st.lists(st.lists(NAMES, max_size=3).map(tuple), min_size=1, max_size=40)
#: Repetitions, as real patterns have them.
REPEATED = st.lists(st.tuples(LAYERS, st.integers(1, 8)), min_size=1, max_size=4).map(
    lambda parts: [layer for layers, times in parts for layer in layers * times]
)


def words(text: str) -> list[str]:
    return ["&".join(names) or "none" for names in parse_pattern(text)]


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("full", ["full"]),
        ("3*full", ["full"] * 3),
        ("a + b", ["a", "b"]),
        ("2*(2*a + b) + a", ["a", "a", "b"] * 2 + ["a"]),
        ("2 * ( a&b + none )", ["a&b", "none"] * 2),
        ("2*a&b", ["a&b"] * 2),
        ("2*((a))", ["a"] * 2),
        ("2*(3*(a + none) + b)", (["a", "none"] * 3 + ["b"]) * 2),
        ("a&a", ["a&a"]),
        ("\n a\t+ b ", ["a", "b"]),
    ],
)
def test_a_pattern_reads_left_to_right(text: str, layers: list[str]) -> None:
    assert words(text) == layers


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "a layer's name"),
        ("3*", 3, "a layer's name"),
        ("3", 2, "a * after a count"),
        ("3 full", 3, "a * after a count"),
        ("full 3", 6, "a + between items"),
        ("a b", 3, "a + between items"),
        ("a)", 2, "no ) without its ("),
        ("(a", 3, "a )"),
        ("a +", 4, "a layer's name"),
        ("a & none", 5, "none to stand alone"),
        ("none & a", 8, "none to stand alone"),
        ("0*a", 1, "a count of at least 1"),
        ("-1*a", 1, "a name, a count"),
        ("a×b", 2, "a name, a count"),
        ("3.5*a", 1, "a name, a count"),
        ("1e3*a", 1, "a name, a count"),
        ("a + \x00", 5, "a name, a count"),
        ("(" * 30 + "a" + ")" * 30, 21, "at most 20 nested groups"),
    ],
)
def test_a_fault_has_its_position(text: str, position: int, expected: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        parse_pattern(text)

    assert caught.value.code == "invalid_preset"
    assert f"at position {position}" in caught.value.message
    assert expected in str(caught.value.hint)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("text", [f"{MAX_LAYERS + 1}*a", "9999*(9999*(9999*a))", "6000*a + 6000*a"])
def test_the_number_of_layers_is_bounded(text: str) -> None:
    with pytest.raises(KvcalcError, match="more than 10,000 layers"):
        parse_pattern(text)


def test_the_length_is_bounded() -> None:
    assert len(parse_pattern(f"{MAX_LAYERS}*a")) == MAX_LAYERS
    with pytest.raises(KvcalcError, match="longer than"):
        parse_pattern("a + " * 20_000 + "a")


@given(REPEATED)
def test_writing_and_reading_is_the_identity(layers: list[tuple[str, ...]]) -> None:
    assert parse_pattern(write_pattern(layers)) == layers


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(2, 50))
def test_a_repetition_is_folded(unit: list[str], times: int) -> None:
    layers = [(name,) for name in unit] * times

    assert len(write_pattern(layers)) <= len(" + ".join(unit)) + len("50*()")


@given(st.text("ab&+*()0123456789 none", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    layers: list[tuple[str, ...]] = [("refused",)]
    with contextlib.suppress(KvcalcError):
        layers = parse_pattern(text)

    assert 0 < len(layers) <= MAX_LAYERS
