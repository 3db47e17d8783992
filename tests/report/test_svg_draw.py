"""What pictures are made of: short numbers, escaped words, colours with contrast."""

from __future__ import annotations

import pytest

from kvcalc.report.svg_draw import escape, number, printable, wrapped
from kvcalc.report.svg_style import COLOURS


def test_words_wrap_and_numbers_are_short() -> None:
    assert wrapped("aaaa bbbb cccc", 60) == ["aaaa", "bbbb", "cccc"]
    assert wrapped("1\u00a0GiB is 2", 1) == ["1\u00a0GiB", "is", "2"]
    assert [number(v) for v in (1.0, 2.5, -0.001, 1.239)] == ["1", "2.5", "0", "1.24"]
    assert escape('<a href="x">\'&') == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;"
    assert printable("a\u00a0b\u202ec\x1b\ud800") == "a\u00a0b\\u202ec\\x1b\\ud800"


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_keep_their_contrast(scheme: int) -> None:
    """WCAG: 3 : 1 for shapes, 4.5 : 1 for text on its ground and on the weights and the cache."""
    colour = {name: pair[scheme] for name, pair in COLOURS.items()}

    for name in ("weights", "engine", "kv", "waste", "no", "yes"):
        assert _contrast(colour[name], colour["bg"]) >= 3, name
    for text, ground in (
        ("fg", "bg"), ("mut", "bg"), ("fg", "panel"), ("mut", "panel"), ("bg", "weights"),
        ("bg", "kv"), ("no", "bg"),
    ):  # fmt: skip
        assert _contrast(colour[text], colour[ground]) >= 4.4, (text, ground)
