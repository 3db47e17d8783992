"""Requests over steps: who holds memory when, and where a total peaks or passes a limit.

Step 0 is the start. A request of P prompt and O output tokens with start step S prefills in step
S + 1, holds P + k tokens in step S + 1 + k (its k-th decoded token), and nothing after S + 1 + O.

Between two steps in which a request comes or goes every total only grows. So a peak stands at the
end of such a stretch and a threshold is found in it by bisection: a million steps cost no more than
ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from kvcalc.core.results.timeline import Request

#: Bytes of one request of so many tokens; never less for more.
Size = Callable[[int], int]


class Load:
    """Requests over steps; a sum runs over those that hold memory in a step."""

    __slots__ = ("first", "last", "requests", "stretches")

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = tuple(requests)
        #: The step of the first prefill and that of the last token.
        self.first = min(r.start_step for r in requests) + 1
        self.last = max(end_of(r) for r in requests)
        starts = {0, *(r.start_step + 1 for r in requests), *(end_of(r) + 1 for r in requests)}
        cuts = sorted(s for s in starts if s <= self.last)
        #: (first, last) step of each stretch in which nobody comes or goes.
        self.stretches = tuple(zip(cuts, [*(c - 1 for c in cuts[1:]), self.last], strict=True))

    def lengths(self, step: int) -> list[int]:
        """Tokens of each request that holds memory in this step."""
        return [
            r.prompt_tokens + step - r.start_step - 1
            for r in self.requests
            if r.start_step < step <= end_of(r)
        ]

    def total(self, step: int, size: Size) -> int:
        """Bytes of all requests in this step."""
        return sum(size(n) for n in self.lengths(step))

    def phase(self, step: int) -> str:
        """Start before the first prefill; prefill where any request does; else decode."""
        if step < self.first:
            return "start"
        return "prefill" if any(r.start_step + 1 == step for r in self.requests) else "decode"

    def first_above(self, limit: int, size: Size) -> int | None:
        """The first step whose total exceeds `limit` bytes."""
        for low, high in self.stretches:
            if self.total(high, size) > limit:
                return bisect(low, high, lambda step: self.total(step, size) > limit)
        return None

    def peak(self, size: Size) -> int:
        """The first step with the most bytes."""
        most = max(self.total(high, size) for _, high in self.stretches)
        return self.first_above(most - 1, size) or 0


def end_of(request: Request) -> int:
    """The step of a request's last token; in the next one its memory is free."""
    return request.start_step + 1 + request.output_tokens


def bisect(low: int, high: int, reached: Callable[[int], bool]) -> int:
    """The first of low … high where `reached`, which once true stays true and holds at high."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low


def spread(marked: Sequence[int], count: int) -> list[int]:
    """The marked steps and, up to `count` in all, others spread evenly between them.

    Each gap gets its share of the rest by its length, rounded down; the largest remainders get one
    more. Never more than there are steps from the first marked one to the last.
    """
    gaps = [(a, b - a - 1) for a, b in pairwise(marked)]
    free = sum(inner for _, inner in gaps)
    rest = min(max(count - len(marked), 0), free)
    if not rest:
        return list(marked)
    shares = [rest * inner // free for _, inner in gaps]
    by_remainder = sorted(range(len(gaps)), key=lambda i: -(rest * gaps[i][1] % free))
    for i in by_remainder[: rest - sum(shares)]:
        shares[i] += 1
    added = [
        a + j * (inner + 1) // (n + 1)
        for (a, inner), n in zip(gaps, shares, strict=True)
        for j in range(1, n + 1)
    ]
    return sorted([*marked, *added])
