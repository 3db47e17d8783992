"""The png format: the svg one as pixels, for places that show no SVG; needs the `png` extra."""

from __future__ import annotations

from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.base import Result
from kvcalc.report import svg

#: Twice the size of the picture: sharp on today's screens and in print.
SCALE = 2.0


def render(result: Result) -> bytes:
    """The result as a PNG.

    Raises:
        KvcalcError: "missing_extra" where vl-convert-python is not installed.
    """
    try:
        import vl_convert  # noqa: PLC0415 - an extra that most never need
    except ImportError:
        raise KvcalcError(
            "missing_extra", "png needs the package vl-convert-python",
            "pip install 'kvcalc[png]'; -f svg needs nothing",
        ) from None  # fmt: skip
    made: bytes = vl_convert.svg_to_png(svg.render(result), scale=SCALE)
    return made
