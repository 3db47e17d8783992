"""The colours of pictures and pages, once: light, dark, and what a hatched area stands on.

A hue carries no meaning alone: hatching, words and position say the same. The pairs keep 3:1 to
their ground (the weights 4.5:1, so that text can stand on them) and stay apart for colour-blind
eyes.
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    """One meaning on a light and on a dark ground."""

    light: str
    dark: str


COLOURS = {
    "bg": Colour("#ffffff", "#10151b"),
    "panel": Colour("#f6f8fa", "#181f27"),
    "fg": Colour("#18212b", "#e4ebf2"),
    "mut": Colour("#566273", "#9aa8b8"),
    "line": Colour("#dde3ea", "#2a343f"),
    "track": Colour("#e9edf2", "#232c36"),
    "weights": Colour("#6b7889", "#7d8a9a"),
    "engine": Colour("#334155", "#b9c5d2"),
    "kv": Colour("#0b76b7", "#4aa8e0"),
    "room": Colour("#cfe4f3", "#1d3c52"),
    "waste": Colour("#b98000", "#f2b632"),
    "no": Colour("#b3261e", "#f4694f"),
    "yes": Colour("#0f7b54", "#3fbf8f"),
}
#: Hatched areas: name, the stripes' colour, their ground ("" is clear), their width of 6.
HATCHED = (("room", "kv", "room", 1.5), ("waste", "waste", "", 2), ("no", "no", "", 2))
#: Families that are on every system, so that no picture asks for a font.
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
_FILLS = ("bg", "panel", "fg", "mut", "track", "weights", "engine", "kv", "no", "yes")


def picture_css() -> str:
    """The style sheet of a picture that stands alone, dark where the reader's system is."""
    fixed = (
        f"text{{font-family:{SANS};font-size:13px}}.mono{{font-family:{MONO}}}"
        ".b{font-weight:bold}.halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
        ".title{font-size:17px;font-weight:bold}.small{font-size:12px}"
    )
    dark = _rules(1)
    return f"{fixed}{_rules(0)}@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(scheme: int) -> str:
    fills = "".join(f".{name}{{fill:{COLOURS[name][scheme]}}}" for name in _FILLS)
    text = f"text{{fill:{COLOURS['fg'][scheme]}}}text.mut{{fill:{COLOURS['mut'][scheme]}}}"
    text += f"text.bg{{fill:{COLOURS['bg'][scheme]}}}"
    text += "".join(f"text.{n}{{fill:{COLOURS[n][scheme]}}}" for n in ("kv", "no", "yes"))
    text += f".halo{{stroke:{COLOURS['bg'][scheme]}}}"
    text += f"text.waste{{fill:{COLOURS['waste'][scheme]}}}"
    lines = "".join(
        f".s-{name}{{stroke:{COLOURS[name][scheme]};fill:none}}"
        for name in ("line", "no", "waste", "fg", "kv")
    )
    stripes = "".join(
        f".h-{name}{{fill:{COLOURS[stripe][scheme]}}}.g-{name}"
        + (f"{{fill:{COLOURS[ground][scheme]}}}" if ground else "{fill:none}")
        for name, stripe, ground, _ in HATCHED
    )
    return fills + text + lines + stripes


def page_colours() -> str:
    """The same colours as custom properties of a page, with its theme switch."""
    light, dark = (
        ";".join(f"--{name}:{pair[scheme]}" for name, pair in COLOURS.items()) for scheme in (0, 1)
    )
    return (
        f":root{{{light};color-scheme:light dark}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f":root[data-theme=dark]{{{dark};color-scheme:dark}}"
        ":root[data-theme=light]{color-scheme:light}"
        f"@media print{{:root:root{{{light};color-scheme:light}}}}"
        f"body{{font-family:{SANS}}}code,pre,kbd,.mono{{font-family:{MONO}}}"
    )
