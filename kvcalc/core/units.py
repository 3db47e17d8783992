"""Bytes and token counts: read once, written once, rounded only here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvcalc.core.errors import KvcalcError

if TYPE_CHECKING:
    from fractions import Fraction

#: Beyond this no count is searched for: the requests of a model without a cache, the context of
#: one of states alone.
LONGEST = 2**40
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_SIZES = {
    "b": 1,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15,
    "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB, "pib": 2**50,
}  # fmt: skip
_BARE = {"k": "K", "m": "M", "g": "G", "t": "T", "p": "P"}
_COUNTS = {"": 1, "k": 2**10, "m": 2**20}
#: Larger counts are typing errors: no model and no fleet has a trillion of anything counted here.
MAX_COUNT = 10**12
MAX_BYTES = 2**60
#: Compiled when first used: most answers read no such text.
_NUMBER = r"([0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?)\s*([A-Za-z]*)"


def cdiv(a: int, b: int) -> int:
    """a / b rounded up: 17 tokens in blocks of 16 take 2 blocks."""
    return -(-a // b)


def pad(a: int, b: int) -> int:
    """a rounded up to a multiple of b."""
    return -(-a // b) * b


def parse_count(text: str | int, option: str, *, minimum: int = 1) -> int:
    """Tokens or requests: 4096, 4_096, 4k = 4K = 4,096, 1M = 1,048,576.

    Raises:
        KvcalcError: "usage" if it is no whole number within [minimum, 10¹²].
    """
    value = text if isinstance(text, int) and not isinstance(text, bool) else _count_of(text)
    if value is None:
        raise KvcalcError(
            "usage",
            f"{option} {shown(text)} is not a whole number",
            "write it like 4096, 4_096, 4k or 1M",
        )
    if value < minimum:
        least = f"at least {minimum:,}" if minimum else "0 or more"
        raise KvcalcError("usage", f"{option} is {value:,}, expected {least}")
    if value > MAX_COUNT:
        raise KvcalcError(
            "usage", f"{option} {shown(text)} is too large", f"the most is {MAX_COUNT:,}"
        )
    return value


def _count_of(text: object) -> int | None:
    if not isinstance(text, str):
        return None
    word = text.strip()
    if word.isdecimal() and word.isascii() and len(word) <= 30:
        return int(word)  # by far the most common spelling
    sign = -1 if word.startswith("-") else 1
    match = re.fullmatch(_NUMBER, word[1:] if word[:1] in {"+", "-"} else word)
    if match is None or "." in match[1]:
        return None
    if len(match[1]) > 30:  # int() of a million digits would take minutes
        return sign * (MAX_COUNT + 1)
    factor = _COUNTS.get(match[2].lower())
    return None if factor is None else sign * int(match[1]) * factor


def parse_bytes(text: str | int, option: str) -> int:
    """A size with its unit: 80GiB, 80GB, 512MiB; a bare number is bytes.

    Raises:
        KvcalcError: "usage" for a bare `80G` (two readings), no unit, or nonsense.
    """
    text = str(text)
    match = re.fullmatch(_NUMBER, text.strip())
    if match is None or len(match[1]) > 30:
        raise KvcalcError(
            "usage", f"{option} {shown(text)} is not a size", "write it like 80GiB, 80GB or 512MiB"
        )
    unit = match[2].lower()
    if unit in _BARE:
        _refuse_bare(match[1], _BARE[unit], option)
    if not unit and _scaled(match[1], 1) < MIB:
        raise KvcalcError(
            "usage", f"{option} {shown(text)} has no unit", f"write {text}GiB or {text}GB"
        )
    if unit and unit not in _SIZES:
        raise KvcalcError(
            "usage",
            f"{option} {shown(text)}: unknown unit {shown(match[2])}",
            "units are B, KiB, MiB, GiB, TiB and kB, MB, GB, TB",
        )
    value = _scaled(match[1], _SIZES[unit or "b"])
    if not 0 < value <= MAX_BYTES:
        raise KvcalcError(
            "usage", f"{option} {shown(text)} is out of range", "above 0, at most 1,024 PiB"
        )
    return value


def _scaled(digits: str, size: int) -> int:
    """The number times `size`, halves rounded up: "1.5", 1024 is 1,536."""
    whole, _, rest = digits.replace("_", "").partition(".")
    return _half_up(int(whole + rest) * size, 10 ** len(rest))


def _half_up(a: int, b: int) -> int:
    """a / b as the nearest whole number, halves away from zero."""
    return (2 * a + b) // (2 * b) if a >= 0 else -((b - 2 * a) // (2 * b))


#: Digits, an exponent of at most three (1e999999999 has a billion digits), perhaps a percent sign.
_SHARE = r"((?:[0-9]{1,20}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE]-?[0-9]{1,3})?)\s*(%?)"


def parse_share(text: str | float, option: str) -> Fraction:
    """A share from 0 to 1, exactly as written: 0.62 or 62%; a float's own digits.

    Raises:
        KvcalcError: "usage".
    """
    from fractions import Fraction  # noqa: PLC0415 - few answers need it

    match = re.fullmatch(_SHARE, str(text).strip())
    value = Fraction(match[1]) / (100 if match[2] else 1) if match else Fraction(-1)
    if not 0 <= value <= 1:
        raise KvcalcError(
            "usage", f"{option} {shown(text)} is not a share from 0 to 1", "write it like 0.62"
        )
    return value


def _refuse_bare(n: str, letter: str, option: str) -> None:
    decimal = _scaled(n, _SIZES[f"{letter.lower()}b"])
    raise KvcalcError(
        "usage",
        f"{option} {n}{letter} has two readings: {n} {letter}B = "
        f"{fixed(decimal, _SIZES[f'{letter.lower()}ib'])} {letter}iB, or {n} {letter}iB",
        f"write {n}{letter}B or {n}{letter}iB",
    )


def shown(text: object, limit: int = 60) -> str:
    """Text from outside, safe to print: control characters escaped, cut at `limit`."""
    word = str(text)
    word = word if len(word) <= limit else word[: limit - 1] + "…"
    safe = "".join(c if c.isprintable() else repr(c)[1:-1] for c in word)
    return safe or '""'


def printable(text: str) -> str:
    """Text from outside without what a terminal would obey: escapes, bells, direction marks."""
    if text.isprintable():
        return text
    keep = "\n\u00a0"
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def fixed(value: float | Fraction, unit: int = 1, decimals: int = 2) -> str:
    """value / unit with exactly `decimals` digits, halves rounded up, thousands separated."""
    top, bottom = value.as_integer_ratio()
    scaled = _half_up(top * 10**decimals, bottom * unit)
    sign, digits = ("−" if scaled < 0 else ""), str(abs(scaled)).rjust(decimals + 1, "0")
    whole = digits[: len(digits) - decimals]
    return f"{sign}{int(whole):,}" + (f".{digits[-decimals:]}" if decimals else "")


def trimmed(value: float | Fraction, unit: int = 1, decimals: int = 2) -> str:
    """As `fixed`, without trailing zeros: 1.25, 40, 0.5."""
    text = fixed(value, unit, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text


def unit_of(value: int) -> tuple[str, int]:
    """The largest binary unit in which |value| is at least 1."""
    for name, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(value) >= size:
            return name, size
    return "B", 1


def format_bytes(value: int) -> str:
    """For a sentence: the largest unit at least 1, at most two decimals, zeros trimmed."""
    name, size = unit_of(value)
    return f"{trimmed(value, size)}\u00a0{name}"  # the blank is a no-break space


def counted(n: int) -> str:
    """1 request, 2 requests."""
    return f"{n:,} request" if n == 1 else f"{n:,} requests"


def percent(value: float | Fraction, decimals: int = 1) -> str:
    """A fraction in [0, 1] as 63.4%."""
    top, bottom = value.as_integer_ratio()
    return fixed(_half_up(top * 10 ** (decimals + 2), bottom), 10**decimals, decimals) + "%"
