"""Axes of a picture: round steps, grid, labels, and where a value lies."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.units import fixed
from kvcalc.report.svg_draw import Canvas, text_width

#: Narrower pictures, for phones, say less.
SLIM = 500
_ROUND = tuple(map(Fraction, ("1", "2", "2.5", "5", "10")))


def round_step(top: int, unit: int, most: int = 6) -> Fraction:
    """The smallest round step, in units, of which `most` reach from 0 to at least `top`."""
    least = Fraction(max(top, 1), unit * most)
    power = Fraction(1)
    while power * 10 <= least:
        power *= 10
    while power > least:
        power /= 10
    return next(power * n for n in _ROUND if power * n >= least)


def decimals_of(step: Fraction) -> int:
    """Digits after the point that a multiple of the step needs."""
    return next((d for d in range(4) if (step * 10**d).denominator == 1), 4)


class Plot(NamedTuple):
    """The rectangle of a chart, and the values at its right and top edge."""

    left: float
    top: float
    width: float
    height: float
    right_value: int
    top_value: float

    def x(self, value: float) -> float:
        """Where a value lies, from the left edge of the picture."""
        return self.left + self.width * value / self.right_value

    def y(self, value: float) -> float:
        """Where a value lies, from the top edge of the picture."""
        return self.top + self.height * (1 - min(value, self.top_value) / self.top_value)

    @property
    def bottom(self) -> float:
        """The axis."""
        return self.top + self.height


def plot(
    canvas: Canvas, top: float, height: float, *, right: int, highest: int, unit: int,
    unit_name: str, y_name: str, x_name: str,
) -> Plot:  # fmt: skip
    """Draw grid and labels; the returned rectangle says where values go."""
    step = round_step(highest, unit, 5)
    count = next(n for n in range(1, 12) if step * n * unit >= highest)
    labels = [fixed(step * n, 1, decimals_of(step)) for n in range(count + 1)]
    left = max(text_width(label) for label in labels) + 12
    made = Plot(left, top, canvas.width - left - 16, height, right, float(step * count * unit))
    canvas.text(0, top - 16, f"{unit_name} {y_name}".strip(), class_="mut")
    for n, label in enumerate(labels):
        y = made.y(float(step * n * unit))
        canvas.line(left, y, left + made.width, y, "s-line")
        canvas.text(left - 8, y + 4.5, label, class_="mut", anchor="end")
    for value in _ticks(right, 4 if canvas.width >= SLIM else 2):
        x = made.x(value)
        canvas.line(x, made.bottom, x, made.bottom + 5, "s-line")
        anchor = "end" if value == right else "start" if value == 0 else "middle"
        canvas.text(x, made.bottom + 20, f"{value:,}", class_="mut", anchor=anchor)
    canvas.text(left + made.width, made.bottom + 38, x_name, class_="mut", anchor="end")
    return made


def _ticks(right: int, count: int) -> list[int]:
    """Equal parts where they are whole numbers, else round steps; the right end always."""
    if right % count == 0:
        return [right * k // count for k in range(count + 1)]
    step = round_step(right, 1, count)
    whole = max(int(step), 1)
    inner = [n for n in range(0, right, whole) if right - n > whole * 0.4]
    return [*inner, right]
