"""Lines, tables and charts in the cells of terminals, wide and narrow."""

from __future__ import annotations

import pytest

from kvcalc.report.chart import draw
from kvcalc.report.document import (
    Bar,
    BarPart,
    Chart,
    Code,
    Column,
    Document,
    Paragraph,
    Row,
    Share,
    Span,
    Table,
    keys,
    without_charts,
)
from kvcalc.report.layout import lay_out
from kvcalc.report.layout_table import table_lines
from kvcalc.report.lines import as_text, wrap


def wrapped(text: str, width: int, indent: str = "", hang: str | None = None) -> list[str]:
    return as_text(list(wrap((Span(text),), width, indent, hang))).splitlines()


def drawn(table: Table, width: int | None) -> list[str]:
    return as_text(list(table_lines(table, width))).splitlines()


def charted(chart: Chart, width: int = 48, height: int = 24) -> list[str]:
    return as_text(list(draw(chart, width, height))).splitlines()


def test_words_break_at_blanks_and_hang() -> None:
    assert wrapped("one two three", 9) == ["one two", "three"]
    assert wrapped("one two three", 9, "  ", "    ") == ["  one two", "    three"]
    assert wrapped("1.25\u00a0GiB of it", 9) == ["1.25\u00a0GiB", "of it"]


def test_a_seam_of_spans_is_no_place_to_break() -> None:
    """A glyph stays with its words: `aa █` would fit 5 cells, `aa █ b` does not."""
    spans = (Span("aa "), Span("█", "kv"), Span("\u00a0b"))

    assert as_text(list(wrap(spans, 5))).splitlines() == ["aa", "█\u00a0b"]


def test_a_word_wider_than_the_line_breaks_behind_a_joint() -> None:
    assert wrapped("see src/models/config.json now", 12) == [
        "see",
        "src/models/",
        "config.json",
        "now",
    ]
    assert wrapped("x" * 7, 3) == ["xxx", "xxx", "x"]


#: 2 + 22 + 2 + 7 + 2 + 6 = 41 cells in all.
BUDGET = Table(
    (Column("GiB", "<"), Column("per GPU"), Column("2 GPUs")),
    (Row(("memory a program sees", "79.18", "158.36")),
     Row(("a longer name of a row", "−6.33", "−12.67"))),
)  # fmt: skip


def test_a_table_that_fits_is_as_it_is() -> None:
    assert drawn(BUDGET, 41)[1] == "  memory a program sees     79.18  158.36"
    assert drawn(BUDGET, None) == drawn(BUDGET, 41)


def test_words_wrap_and_numbers_do_not() -> None:
    assert drawn(BUDGET, 36)[:3] == [
        "  GiB                per GPU  2 GPUs",
        "  memory a program     79.18  158.36",
        "    sees",
    ]


def test_columns_go_in_the_order_that_the_view_names() -> None:
    table = Table(
        (Column("a", "<"), Column("bb", drop=1), Column("cc", drop=2)), (Row(("x", "1", "2")),)
    )
    # 2 + 1 + 2 + 2 + 2 + 2 = 11 cells; without cc 7.
    assert drawn(table, 11)[0] == "  a  bb  cc"
    assert drawn(table, 10)[0] == "  a  bb"
    assert drawn(table, 5)[0] == "  a"


def test_a_short_form_replaces_the_column_before_it() -> None:
    long, short = Column("a long head", drop=1), Column("short", screen=True, narrow=True)
    table = Table((Column("a", "<"), long, short), (Row(("x", "1", "2")),))

    assert drawn(table, 40)[0] == "  a  a long head"
    assert drawn(table, 12)[0] == "  a  short"
    assert drawn(table, None)[0] == "  a  a long head"


def test_bars_alone_go_where_the_screen_has_no_room_for_them() -> None:
    columns = (Column("policy", "<", screen=True, narrow=True),
               Column("used", "<", screen=True, narrow=True))  # fmt: skip
    bars = Table(columns, (Row(("naive", Share(0.5))),))

    assert drawn(bars, 40)[0] == "  policy  used"
    assert drawn(bars, 12) == []


#: No column may go, and the name alone is 30 cells.
CHANGES = Table(
    (Column("change one thing", "<"), Column("requests"), Column(""), Column("longest")),
    (Row(("--set max_num_batched_tokens=2048", "28", "+1", "116,560"), "✓"),),
)  # fmt: skip


def test_a_row_that_cannot_wrap_stands_upright() -> None:
    assert drawn(CHANGES, 40) == [
        "  change one thing",
        "  ✓ --set max_num_batched_tokens=2048",
        "      requests:\u00a028  +1  longest:\u00a0116,560",
    ]


def test_peers_stand_below_each_other() -> None:
    """2 + 8 + 2 + 6 + 2 + 6 = 26 cells hold two of three."""
    table = Table(
        (Column("", "<"), Column("naive"), Column("paged"), Column("exact")),
        (Row(("waiting.", "17.1 s", "6.9 ms", "6.9 ms")),), peers=True,
    )  # fmt: skip
    assert [line.split() for line in drawn(table, 26)] == [
        ["naive", "paged"], ["waiting.", "17.1", "s", "6.9", "ms"], [],
        ["exact"], ["waiting.", "6.9", "ms"],
    ]  # fmt: skip


def test_bars_take_what_the_words_leave() -> None:
    """2 + 5 + 2 cells before the bar: 31 of 40 are left; a quarter of them is 7.75."""
    table = Table(
        (Column("", "<"), Column("", "<", screen=True)),
        (Row(("whole", Share(1.0))), Row(("part.", Share(0.25)))),
    )
    assert drawn(table, 40) == ["  whole  " + "█" * 31, "  part.  " + "█" * 7 + "▊"]
    assert drawn(table, 120)[0] == "  whole  " + "█" * 36
    assert drawn(table, None) == ["  whole", "  part."]


def test_a_bar_shows_what_is_wasted() -> None:
    table = Table((Column("", "<", screen=True),), (Row((Share(0.75, beyond=0.25),)),))

    assert drawn(table, 18) == ["  " + "█" * 12 + "░" * 4]


def test_commands_never_break_and_log_lines_do() -> None:
    code = Code(("vllm serve NAME --max-model-len 4096", "pool size: 116,272 tokens"), pasted=1)
    lines = as_text(lay_out(Document("", (code,)), 24)).splitlines()

    assert lines == ["  vllm serve NAME --max-model-len 4096", "  pool size: 116,272", "    tokens"]


def test_what_is_drawn_in_columns_hangs_below_its_second() -> None:
    code = Code(("step 1   the prompt is written",), pasted=0)
    lines = as_text(lay_out(Document("", (code,)), 24)).splitlines()

    assert lines == ["  step 1   the prompt is", "           written"]


#: 0 to 8 on a base of 8, a limit at 14, full from x = 6 on.
FULL = Chart(
    ((0, 0, None), (8, 8, None)), "tokens", "B", 1, keys(("█", "kv", "cache")), base=8, limit=14,
    limit_label="limit 14", end=6, end_label="out of memory",
)  # fmt: skip


def test_a_chart_has_base_series_limit_and_end() -> None:
    lines = charted(FULL)

    assert "✗ out of memory ▾" in lines[0]
    # Four labels of 4 in 8 rows of 2: the limit lies at the top of the seventh row.
    assert lines[3].startswith("   12 ┤")
    assert "╌╌ limit 14 ╌╌" in lines[2]
    assert set(lines[5].split("┤")[1]) == {"▒"}
    assert "░" in lines[1]
    assert lines[-1] == "  █\u00a0cache"


def test_a_limit_without_room_for_its_name_is_named_below() -> None:
    lines = charted(FULL._replace(knots=((0, 5, None), (8, 8, None)), end=3), 40)

    assert not any("limit 14" in line for line in lines[:-1])
    assert "╌\u00a0limit\u00a014" in lines[-1]


def test_slack_lies_on_the_series() -> None:
    """4 used and 8 taken, of 8 rows: four full rows of each."""
    chart = Chart(((0, 4, None), (8, 4, None)), "steps", "B", 1, keys(("█", "kv", "used")),
                  slack=((0, 8), (8, 8)))  # fmt: skip
    lines = charted(chart)

    assert [line.split("┤")[1][0] for line in lines[:8]] == list("░░░░████")
    assert lines[-1] == "  █\u00a0used  ░\u00a0unused\u00a0in\u00a0pages"


def test_a_jump_of_the_dotted_line_has_no_gap() -> None:
    chart = Chart(((0, 1, 1), (4, 1, 1), (5, 1, 8), (8, 1, 8)), "steps", "B", 1, "")
    rows = [line.split("┤")[1] for line in charted(chart)[:8]]

    assert all("·" in row for row in rows[:7])


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_charts_grow_to_96_columns(width: int) -> None:
    lines = charted(FULL, width)

    assert max(map(len, lines)) <= min(width, 7 + 96)


def test_without_charts_only_words_and_numbers_are_left() -> None:
    table = Table((Column("a", "<"), Column("", "<", screen=True)), (Row(("x", Share(1.0))),))
    bar = Bar((BarPart("used", 1, "█", "kv"),))
    found = without_charts(Document("", (Paragraph("words"), bar, FULL, table)))

    assert [type(b).__name__ for b in found.blocks] == ["Paragraph", "Table"]
    assert as_text(lay_out(found, 80)).splitlines() == ["  words", "", "  a", "  x"]
