"""Synthetic workloads from a short spec, the same on every machine and every Python.

    poisson:rate=5,prompt=lognormal(1200,0.9),output=lognormal(200,0.8,2000),requests=10000,seed=7

Arrivals: poisson, constant (evenly spaced), gamma (bursty, with cv) and batch (all at once).
Lengths: a number, uniform(low,high), normal(mean,sd), exponential(mean), lognormal(mean,sigma),
where sigma is the standard deviation of the logarithm; a last number more caps them. prefix=TOKENS
gives every prompt the same first tokens, prefixes=N one of N such, chosen evenly.

Random numbers are those of the Mersenne Twister, whose sequence Python guarantees; everything else
is computed here, for `random`'s distributions may change between releases.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.simulate.job import Prefix
from kvcalc.core.units import parse_count, shown
from kvcalc.workloads.request import TraceRequest

ARRIVALS = ("poisson", "constant", "gamma", "batch")
LENGTHS = {"uniform": 2, "normal": 2, "exponential": 1, "lognormal": 2}
_KEYS = ("rate", "cv", "prompt", "output", "requests", "seconds", "seed", "prefix", "prefixes")
_EXAMPLE = "like poisson:rate=5,prompt=lognormal(1200,0.9),output=lognormal(200,0.8)"
_MOST = 10**9
#: Requests of a workload, and prefixes; more are a typing error that would run for hours.
_MOST_REQUESTS, _MOST_PREFIXES = 10_000_000, 1_000_000
#: Rates and variations below this are one too.
_LEAST = 1e-6

#: A sample, given the source of random numbers.
Draw = Callable[[random.Random], float]


def is_spec(text: str) -> bool:
    """Whether a source names a synthetic workload rather than a file."""
    return text.partition(":")[0].lower() in ARRIVALS and ":" in text


class Synthetic:
    """Requests of a spec; iterating again gives the same ones.

    Args:
        spec: See the module.
        seed: Instead of the spec's, which defaults to 0.
        limit: At most so many.

    Raises:
        KvcalcError: "usage" naming the part that is wrong.
    """

    format = "synthetic"
    skipped = 0

    def __init__(self, spec: str, *, seed: int | None = None, limit: int | None = None) -> None:
        kind, _, rest = spec.partition(":")
        self.name = shown(spec, 200)
        self._kind = kind.lower()
        values = _values(rest)
        self.unit = None if self._kind == "batch" else "seconds"
        self._prompt, self._output = (_length(values, key) for key in ("prompt", "output"))
        self._rate = None if self._kind == "batch" else _positive(values, "rate")
        self._cv = _positive(values, "cv", 1.0) if self._kind == "gamma" else 1.0
        self._seed = seed if seed is not None else _count(values, "seed", 0, least=0)
        self._seconds = _positive(values, "seconds") if "seconds" in values else None
        default = None if self._seconds is not None else 1000
        self._requests = (
            _count(values, "requests", default) if default or "requests" in values else None
        )
        if limit is not None:
            self._requests = min(limit, self._requests or limit)
        self._check_size()
        self._shared = _count(values, "prefix", 0, least=0)
        self._prefixes: list[Prefix] = [
            ((f"prefix{i}", self._shared),) for i in range(_prefixes(values))
        ]

    def _check_size(self) -> None:
        """Refuse what would take hours to draw."""
        wanted = self._requests
        if wanted is None:
            wanted = round((self._rate or 0) * (self._seconds or 0))
        if wanted > _MOST_REQUESTS:
            raise KvcalcError(
                "usage", f"workload: {wanted:,} requests", f"the most is {_MOST_REQUESTS:,}"
            )

    def __iter__(self) -> Iterator[TraceRequest]:
        """The requests in order of arrival."""
        source = random.Random(self._seed)  # noqa: S311 - a workload, not a secret
        gap, at, number = self._gap(), 0.0, 0
        while self._requests is None or number < self._requests:
            if gap is not None:
                at += gap(source)
                if self._seconds is not None and at > self._seconds:
                    return
            prompt, output = (
                max(1, min(_MOST, round(draw(source)))) for draw in (self._prompt, self._output)
            )
            prefix: Prefix = None
            if self._shared:
                prefix = self._prefixes[int(source.random() * len(self._prefixes))]
            # Microseconds: the last bits of a logarithm differ between machines.
            yield TraceRequest(number, round(at, 6), prompt, output, prefix)
            number += 1

    def _gap(self) -> Draw | None:
        """The time between arrivals, whose mean is 1 / rate."""
        if self._rate is None:
            return None
        mean = 1 / self._rate
        if self._kind == "constant":
            return lambda _: mean
        if self._kind == "poisson":
            return lambda source: -math.log(1 - source.random()) * mean
        shape = self._cv**-2
        return lambda source: _gamma(source, shape) * mean / shape


def _values(rest: str) -> dict[str, str]:
    """KEY=VALUE parts; commas within brackets separate nothing."""
    values: dict[str, str] = {}
    for part in re.findall(r"(?:[^,(]|\([^)]*\)?)+", rest):
        key, equals, value = part.partition("=")
        key = {"n": "requests"}.get(key.strip().lower(), key.strip().lower())
        if not equals or key not in _KEYS:
            close = nearest(key, list(_KEYS))
            near = f"nearest: {', '.join(close)}" if close else f"all: {', '.join(_KEYS)}"
            raise KvcalcError("usage", f"workload: no part {shown(part.strip())}", near)
        values[key] = value.strip()
    return values


def _length(values: dict[str, str], key: str) -> Draw:
    text = values.get(key)
    if text is None:
        raise KvcalcError("usage", f"workload: {key} is missing", _EXAMPLE)
    match = re.fullmatch(r"([a-z]+)\(([^()]*)\)", text.lower())
    if match is None:
        tokens = parse_count(text, f"workload: {key}")
        return lambda _: tokens
    kind, words = match[1], match[2].split(",")
    if kind not in LENGTHS:
        close = nearest(kind, list(LENGTHS))
        near = f"nearest: {', '.join(close)}; " if close else ""
        raise KvcalcError(
            "usage",
            f"workload: {key}: no distribution {shown(kind)}",
            f"{near}all: {', '.join(LENGTHS)}",
        )
    numbers = [_float(word, f"{key}={text}") for word in words]
    if not LENGTHS[kind] <= len(numbers) <= LENGTHS[kind] + 1 or numbers[0] <= 0:
        raise KvcalcError(
            "usage",
            f"workload: {key}={shown(text)}: {kind} takes {LENGTHS[kind]} numbers",
            _EXAMPLE,
        )
    draw = _draw(kind, numbers)
    if len(numbers) == LENGTHS[kind]:
        return draw
    most = numbers[-1]
    return lambda source: min(draw(source), most)


def _draw(kind: str, numbers: list[float]) -> Draw:
    a = numbers[0]
    if kind == "exponential":
        return lambda source: -math.log(1 - source.random()) * a
    b = numbers[1]
    if kind == "uniform":
        return lambda source: a + (b - a) * source.random()
    if kind == "normal":
        return lambda source: a + b * _normal(source)
    # The mean of exp(mu + sigma z) is exp(mu + sigma²/2).
    mu = math.log(a) - b * b / 2
    return lambda source: math.exp(mu + b * _normal(source))


def _normal(source: random.Random) -> float:
    """Box and Muller's transform, one of its two values."""
    radius = math.sqrt(-2 * math.log(1 - source.random()))
    return radius * math.cos(2 * math.pi * source.random())


def _gamma(source: random.Random, shape: float) -> float:
    """Marsaglia and Tsang's method (2000); below a shape of 1 by its own boost."""
    if shape < 1:
        boost: float = (1 - source.random()) ** (1 / shape)
        return _gamma(source, shape + 1) * boost
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = _normal(source)
        v = (1 + c * x) ** 3
        if v > 0 and math.log(1 - source.random()) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v


def _float(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MOST:
        raise KvcalcError(
            "usage", f"workload: {shown(where)}: {shown(text)} is no number", _EXAMPLE
        )
    return value


def _positive(values: dict[str, str], key: str, default: float | None = None) -> float:
    text = values.get(key)
    if text is None and default is not None:
        return default
    if text is None:
        raise KvcalcError("usage", f"workload: {key} is missing", _EXAMPLE)
    value = _float(text, f"{key}={text}")
    if value < _LEAST:
        raise KvcalcError(
            "usage", f"workload: {key} is {shown(text)}, expected at least 0.000001", _EXAMPLE
        )
    return value


def _prefixes(values: dict[str, str]) -> int:
    count = _count(values, "prefixes", 1)
    if count > _MOST_PREFIXES:
        raise KvcalcError("usage", f"workload: {count:,} prefixes",
                          f"the most is {_MOST_PREFIXES:,}")  # fmt: skip
    return count


def _count(values: dict[str, str], key: str, default: int | None, *, least: int = 1) -> int:
    text = values.get(key)
    if text is None:
        assert default is not None, key  # noqa: S101 - the caller looked
        return default
    return parse_count(text, f"workload: {key}", minimum=least)
