"""Lines of styled spans: how wide they are, and how they wrap."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from kvcalc.report.document import Span

Spans = tuple[Span, ...]
_EIGHTHS = " ▏▎▍▌▋▊▉"
GAP = "  "
INDENT = "  "
#: Terminals below this are narrow: tables wrap their words or stand upright.
NARROW = 60
#: Where a word that is wider than the screen, a path or an address, may break.
_JOINT = re.compile(r"[^/:_?&=-]*[/:_?&=-]+|[^/:_?&=-]+")


def cells(text: str) -> int:
    """Terminal cells of a text: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def line_cells(spans: Spans) -> int:
    """Terminal cells of a line of spans."""
    return sum(cells(s.text) for s in spans)


def wrap(
    spans: Spans, width: int | None, indent: str = "", hang: str | None = None
) -> Iterator[Spans]:
    """Words broken at blanks, each line indented, those after the first by `hang`.

    A no-break space never breaks, nor does the seam of two spans. A single word that is wider
    than the line breaks behind a slash or the like.
    """
    if width is None:
        yield (Span(indent), *spans) if indent else spans
        return
    hang = indent if hang is None else hang
    line: list[Span] = [Span(indent)] if indent else []
    used, gap, full = len(indent), 0, False
    for blank, word in _words(spans):
        wide = line_cells(tuple(word))
        if full and used + gap + wide > width:
            yield tuple(line)
            line, used, gap, full = [Span(hang)] if hang else [], len(hang), 0, False
            if not wide:
                continue
        rest = word
        if not full and used + gap + wide > width:
            *whole, rest = _pieces(word, width - used)
            for part in whole:
                yield (*line, *part)
                line, used, gap = [Span(hang)] if hang else [], len(hang), 0
            wide = line_cells(tuple(rest))
        for piece in ([blank] if gap else []) + rest:
            _append(line, piece)
        used += gap + wide
        full, gap = full or wide > 0, 1
    if line:
        yield tuple(line)


def _append(line: list[Span], span: Span) -> None:
    if line and line[-1].style == span.style:
        line[-1] = Span(line[-1].text + span.text, span.style)
    else:
        line.append(span)


def _words(spans: Spans) -> Iterator[tuple[Span, list[Span]]]:
    """Words with the blank before each; a word may go on in the next span."""
    blank = Span(" ")
    word: list[Span] = []
    for span in spans:
        first, *others = span.text.split(" ")
        if first:
            word.append(Span(first, span.style))
        for text in others:
            yield blank, word
            blank, word = Span(" ", span.style), [Span(text, span.style)] if text else []
    yield blank, word


def _pieces(word: list[Span], room: int) -> list[list[Span]]:
    """A word in pieces of at most `room` cells, broken at joints, else anywhere."""
    room = max(room, 1)
    pieces: list[list[Span]] = [[]]
    used = 0
    for span in word:
        for part in _JOINT.findall(span.text):
            while part:
                wide = cells(part)
                if used and used + wide > room:
                    pieces.append([])
                    used = 0
                head = part if wide <= room else part[:room]
                _append(pieces[-1], Span(head, span.style))
                used += cells(head)
                part = part[len(head) :]  # noqa: PLW2901 - what is left of it
    return pieces


def eighth_bar(share: float, width: int) -> str:
    """A bar of `share` of `width` cells, to an eighth of a cell; something is always visible."""
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(min(eighths, width * 8), 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def as_text(lines: list[Spans]) -> str:
    """Lines without styles, no blanks at their ends."""
    return "".join("".join(s.text for s in line).rstrip() + "\n" for line in lines)
