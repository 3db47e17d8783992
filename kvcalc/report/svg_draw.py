"""A small writer of SVG: equal input gives equal bytes.

Elements stand in order, coordinates have at most two decimals; text from outside is escaped here
and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvcalc.report.svg_style import HATCHED, picture_css

#: Blanks that are meant; every other unprintable character is shown as its escape.
_BLANKS = " \n\u00a0\u202f\u2009"
#: Widths of letters in hundredths of the font size, for sans-serif fonts of the usual kind.
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] \u00a0"), frozenset("mwMW—%@")


def printable(text: str) -> str:
    """Text whose control and direction marks are spelled out, as they would be in Python."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _BLANKS else repr(c)[1:-1] for c in text)


def escape(text: str) -> str:
    """Text as XML and HTML show it, inside elements and quoted attributes."""
    safe = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return safe.replace('"', "&quot;").replace("'", "&#39;")


def number(value: float) -> str:
    """A coordinate: at most two decimals, no trailing zeros, never -0."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def text_width(text: str, size: float = 13, *, bold: bool = False) -> float:
    """About how wide a text is in the widest font usual; only the reader's own font would tell."""
    units = sum(35 if c in _NARROW else 90 if c in _WIDE else 70 if c.isupper() else 62
                for c in text)  # fmt: skip
    return units * size / 100 * (1.11 if bold else 1)


def wrapped(text: str, width: float, size: float = 13, *, bold: bool = False) -> list[str]:
    """A sentence in lines of at most `width`; a no-break space keeps its words together."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and text_width(f"{lines[-1]} {word}", size, bold=bold) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


class Canvas:
    """Elements of one picture, or of a part that a page embeds; `key` keeps its ids apart."""

    def __init__(self, width: float, key: str = "") -> None:
        self.width = width
        self.height = 0.0
        self.key = key
        self.parts: list[str] = []

    def add(
        self, tag: str, content: str | None = None, *, title: str = "",
        data: Mapping[str, object] | None = None, **attributes: object,
    ) -> None:  # fmt: skip
        """One element; `title` is what a reader sees who points at it. `class_` is class.

        `data` are the result's own numbers, as data-… attributes.
        """
        inner = f"<title>{escape(title)}</title>" if title else ""
        inner += "" if content is None else escape(content)
        start = f"<{tag}{self._named({**attributes, **(data or {})})}"
        self.parts.append(f"{start}>{inner}</{tag}>" if inner else f"{start}/>")

    @staticmethod
    def _named(attributes: Mapping[str, object]) -> str:
        return "".join(
            f' {name.rstrip("_").replace("_", "-")}="'
            f'{number(value) if isinstance(value, float) else escape(str(value))}"'
            for name, value in attributes.items()
            if value is not None and value != ""
        )

    def text(
        self, x: float, y: float, content: str, *, class_: str = "", anchor: str = "start"
    ) -> None:
        """A line of text, its baseline at y."""
        self.add("text", content, x=float(x), y=float(y), class_=class_,
                 text_anchor="" if anchor == "start" else anchor)  # fmt: skip

    def rect(
        self, x: float, y: float, width: float, height: float, class_: str, *, title: str = ""
    ) -> None:
        """A filled rectangle; `hatched-…` classes take the pattern of that name."""
        fill = f"url(#{self.key}{class_})" if class_.startswith("hatched-") else None
        self.add(
            "rect", x=float(x), y=float(y), width=float(max(width, 0)), height=float(height),
            class_=None if fill else class_, fill=fill, title=title,
        )  # fmt: skip

    def line(
        self, x1: float, y1: float, x2: float, y2: float, class_: str, *, width: float = 1,
        dashes: str = "",
    ) -> None:  # fmt: skip
        """A line."""
        self.add("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_,
                 stroke_width=None if width == 1 else width, stroke_dasharray=dashes)  # fmt: skip

    def open(
        self, tag: str, *, data: Mapping[str, object] | None = None, **attributes: object
    ) -> None:
        """Begin a group."""
        self.parts.append(f"<{tag}{self._named({**attributes, **(data or {})})}>")

    def close(self, tag: str) -> None:
        """End a group."""
        self.parts.append(f"</{tag}>")

    def hatches(self) -> str:
        """The patterns of hatched areas."""
        made = []
        for name, _, _, wide in HATCHED:
            made.append(
                f'<pattern id="{self.key}hatched-{name}" width="6" height="6" '
                'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
                f'<rect class="g-{name}" width="6" height="6"/>'
                f'<rect class="h-{name}" width="{number(wide)}" height="6"/></pattern>'
            )
        return f"<defs>{''.join(made)}</defs>"

    def picture(self, title: str, description: str = "") -> str:
        """The whole as a file of its own, with its style sheet and its ground."""
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        box = f'viewBox="0 0 {number(self.width)} {number(self.height)}"'
        desc = f"<desc>{escape(description)}</desc>" if description else ""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" '
            f'aria-label="{escape(title)}"><title>{escape(title)}</title>{desc}'
            f"<style>{picture_css()}</style>{self.hatches()}"
            f'<rect class="bg" width="100%" height="100%" rx="8"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )

    def embedded(self, label: str) -> str:
        """The whole as a part of a page, which has the style sheet."""
        box = f'viewBox="0 0 {number(self.width)} {number(self.height)}"'
        return (
            f'<svg class="picture" {box} role="img" aria-label="{escape(label)}">'
            f"{self.hatches()}{''.join(self.parts)}</svg>"
        )
