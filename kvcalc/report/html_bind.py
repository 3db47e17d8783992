"""Elements of a page that its state moves: written with the first state, named for the script.

`data-f` names the figure that is an element's text, `data-a` those that are its attributes,
`data-h` the one that hides it; the script writes the same places again.
"""

from __future__ import annotations

from kvcalc.report.svg_draw import escape


class Bind:
    """Writes elements with the figures of one state."""

    def __init__(self, figures: dict[str, str]) -> None:
        self.figures = figures

    def text(self, key: str, tag: str = "span", bound: str = "", **fixed: str) -> str:
        """An element whose text is a figure; `bound` are attributes made by `attributes`."""
        words = escape(self.figures[key])
        return f'<{tag} data-f="{key}"{_more(bound)}{_fixed(fixed)}>{words}</{tag}>'

    def attributes(self, hide: str = "", **keys: str) -> str:
        """Attributes that are figures; `hide` names the figure that hides the element."""
        names = {name.replace("_", "-"): key for name, key in keys.items()}
        made = [f'{name}="{escape(self.figures[key])}"' for name, key in names.items()]
        if names:
            made.append(f'data-a="{";".join(f"{n}:{k}" for n, k in names.items())}"')
        if hide:
            made.append(f'data-h="{hide}"' + (" hidden" if self.figures[hide] == "hidden" else ""))
        return " ".join(made)

    def cell(self, key: str, class_: str = "") -> str:
        """A table cell whose text is a figure."""
        return self.text(key, "td", class_=class_)

    def count(self, prefix: str, suffix: str) -> int:
        """How many rows of a kind the figures have."""
        n = 0
        while f"{prefix}{n}{suffix}" in self.figures:
            n += 1
        return n


def _more(text: str) -> str:
    return f" {text}" if text else ""


def _fixed(attributes: dict[str, str]) -> str:
    """Attributes that no state moves; `class_` is class."""
    named = {name.rstrip("_").replace("_", "-"): text for name, text in attributes.items() if text}
    return "".join(f' {name}="{text}"' for name, text in named.items())


def table(
    name: str, heads: list[tuple[str, str]], rows: list[str], *, sorts: bool = False,
    caption: str = "",
) -> str:  # fmt: skip
    """A table in a box that scrolls; heads are (HTML, class), rows are HTML."""
    cells = []
    for words, style in heads:
        kind = f' class="{style}"' if style else ""
        shown = words
        if sorts and words and not words.startswith("<"):
            shown = f'<button type="button" class="sort">{words}</button>'
        cells.append(f'<th scope="col"{kind}>{shown}</th>')
    title = f'<caption class="away">{caption}</caption>' if caption else ""
    return (
        f'<div class="tw"><table id="{name}">{title}<thead><tr>{"".join(cells)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def section(title: str, lead: str, body: str, *, copies: str = "", more: str = "") -> str:
    """A section with its heading, a sentence, and perhaps a button that copies."""
    button = (
        f'<button type="button" data-copies="{copies}" aria-label="copy: {title}">copy</button>'
        if copies
        else ""
    )
    return (
        f"<section{_more(more)}><div class='tools'><h2>{title}</h2>{button}</div>"
        f'<div class="lead">{lead}</div>{body}</section>'
    )
