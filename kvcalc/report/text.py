"""The terminal format: the plain layout with colour, bars and the terminal's width, by rich."""

from __future__ import annotations

from rich.console import Console
from rich.style import Style
from rich.text import Text

from kvcalc.core.results.base import Result
from kvcalc.report.document import Span, without_charts
from kvcalc.report.layout import lay_out
from kvcalc.report.views import view

#: The terminal's own colour names, so that the user's theme picks the hue.
STYLES = {
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    "kv": Style(color="cyan"),
    "kv_room": Style(color="cyan"),
    "waste": Style(color="yellow"),
    "weights": Style(),
    "engine": Style(),
    "no": Style(color="red", bold=True),
    "yes": Style(color="green", bold=True),
    "arg": Style(color="cyan"),
    "": Style(),
}


def render(
    result: Result, *, width: int, height: int | None, colour: bool, charts: bool = True
) -> str:
    """The result for a terminal of `width` cells; a tall one repeats its first line at the end."""
    document = view(result) if charts else without_charts(view(result))
    lines = lay_out(document, width, height)
    if height is not None and len(lines) >= height:
        head = lay_out(document._replace(blocks=document.blocks[:1]), width)
        lines = [*lines, (), *head]
    return "".join(ansi(line, colour=colour) + "\n" for line in lines)


def ansi(line: tuple[Span, ...], *, colour: bool) -> str:
    """One line with its colours as escape codes."""
    if not colour:
        return "".join(span.text for span in line).rstrip()
    console = Console(
        force_terminal=True, color_system="standard", width=10_000, highlight=False, markup=False,
        legacy_windows=False, no_color=False,
    )  # fmt: skip
    text = Text.assemble(*((span.text, STYLES[span.style]) for span in line), end="")
    text.rstrip()
    with console.capture() as capture:
        console.print(text, soft_wrap=True, end="")
    return capture.get()
