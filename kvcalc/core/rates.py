"""Rates read once: bytes a second, with bits and bytes told apart; plain numbers above 0."""

from __future__ import annotations

import re
from fractions import Fraction

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import MAX_BYTES, fixed, shown

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
#: Number; prefix and i; the unit, if any; "a second", if said.
_RATE = (
    r"([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)\s*([kKmMgGtTpP]?)([iI]?)(B|b|bits?|[Bb]ytes?|)(/s|ps|/sec)?"
)
_NUMBER = r"(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})"
MAX_NUMBER = 10**12


def parse_rate(text: str | int, option: str) -> int:
    """Bytes a second: 25GB/s, 64GiB/s, 200Gb/s = 25 GB/s; the "/s" may be left out.

    A bit is `b` or `bit`, a byte `B`. Half bytes are rounded up.

    Raises:
        KvcalcError: "usage" where bits and bytes are not told apart (25G, 25gb/s), for no unit,
            for 0, and for nonsense.
    """
    word = str(text).strip()
    match = re.fullmatch(_RATE, word)
    if match is None or len(match[1]) > 30:
        raise KvcalcError(
            "usage", f"{option} {shown(word)} is not a rate", "write it like 25GB/s or 200Gb/s"
        )
    digits, prefix, binary, unit = match[1].replace("_", ""), match[2], match[3], match[4]
    size = (1024 if binary else 1000) ** _POWERS[prefix.lower()]
    # In lower case throughout nobody knows which b was meant: 25gb/s is written for both.
    if not unit or (unit == "b" and prefix.islower()):
        _refuse(word, digits, f"{prefix.upper()}{binary.lower()}", size, option)
    amount = Fraction(digits) * size
    value = _rounded(amount / 8 if unit.startswith("b") and "yte" not in unit else amount)
    if not 0 < value <= MAX_BYTES:
        raise KvcalcError(
            "usage", f"{option} {shown(word)} is out of range", "above 0, at most 1,024 PiB/s"
        )
    return value


def _rounded(value: Fraction) -> int:
    return int(value + Fraction(1, 2))


def _refuse(word: str, digits: str, prefix: str, size: int, option: str) -> None:
    """Both readings of a rate that names neither bits nor bytes."""
    prefix = "k" if prefix == "K" else prefix
    if not prefix:
        raise KvcalcError(
            "usage", f"{option} {shown(word)} has no unit", f"write {digits}GB/s or {digits}Gb/s"
        )
    eighth = fixed(Fraction(digits) * size / 8, size)
    raise KvcalcError(
        "usage",
        f"{option} {shown(word)} has two readings: {digits} {prefix}B/s, or {digits} {prefix}b/s "
        f"= {eighth} {prefix}B/s",
        f"write {digits}{prefix}B/s for bytes or {digits}{prefix}b/s for bits",
    )


def parse_number(
    text: str | float, option: str, hint: str = "write it like 10 or 2.50"
) -> Fraction:
    """A number above 0, exactly as written: 10, 0.5; a float's own digits.

    Raises:
        KvcalcError: "usage".
    """
    word = str(text).strip()
    value = Fraction(word) if re.fullmatch(_NUMBER, word) else Fraction(0)
    if value > MAX_NUMBER:
        raise KvcalcError(
            "usage", f"{option} {shown(word)} is too large", f"the most is {MAX_NUMBER:,}"
        )
    if not value:
        raise KvcalcError("usage", f"{option} {shown(word)} is not a number above 0", hint)
    return value
