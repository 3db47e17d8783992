"""Time and traffic of steps: ticks of a roofline, or steps alone.

A step takes max(FLOPs / (FLOP/s), (weights + KV read) / (bandwidth)), as `core.speed` has it. Ticks
are 1 / (FLOP/s · bandwidth) of a second, shortened by what both share: then every step is a whole
number of them, sums are exact, and a thousand decode steps cost one formula. While requests only
decode, FLOPs and bytes grow by the same amount each step, except where a window fills or a chunk
ends; no span of steps crosses such a bend.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import gcd, sqrt
from typing import NamedTuple

from kvcalc.core.flops import Attention


class Lane(NamedTuple):
    """Layers that see equally far: FLOPs for each token attended to, bytes of each token read."""

    seen: Attention
    read: int = 0


class Work(NamedTuple):
    """What tokens cost: FLOPs of a token without attention, bytes of a request and of a step."""

    token_flops: int = 0
    lanes: tuple[Lane, ...] = ()
    request_bytes: int = 0
    weight_bytes: int = 0


class Rate(NamedTuple):
    """FLOP/s and bytes/s of all GPUs."""

    flops: int
    bandwidth: int


#: Without a model nothing is read or computed; steps still count.
NO_WORK = Work()


class _Lane(NamedTuple):
    """A lane in ticks: of a token attended to in a prompt, and while decoding; of one read."""

    seen: Attention
    prefill: int
    decode: int
    read: int


class Clock:
    """The time of a run, its traffic, and the load of the requests that decode now."""

    def __init__(self, work: Work = NO_WORK, rate: Rate | None = None) -> None:
        self.step = 0
        self.now = 0
        self._timed = rate is not None
        shared = gcd(rate.flops, rate.bandwidth) if rate is not None else 1
        #: Ticks of a FLOP and of a byte; without a rate bytes still count.
        flop = rate.bandwidth // shared if rate is not None else 0
        self._byte = rate.flops // shared if rate is not None else 1
        #: None where ticks are steps.
        self.ticks_per_second = flop * rate.flops if rate is not None else None
        #: The work in ticks: of a token, of a request, of a step.
        self._token = work.token_flops * flop
        self._request = work.request_bytes * self._byte
        self._weights = work.weight_bytes * self._byte
        self._lanes = [
            _Lane(a, a.prefill * flop, a.decode * flop, read * self._byte) for a, read in work.lanes
        ]
        self._cut = [lane for lane in self._lanes if lane.seen.window or lane.seen.chunk]
        #: Ticks that the next decode step computes and reads, and what each step adds to them.
        self._compute = self._more_compute = 0
        self._read = self._more_read = 0
        #: The same of prompts in this step.
        self._extra_compute = self._extra_read = 0
        self._traffic = 0
        #: What `ticks` said last, for so many steps; 0 where it holds no more.
        self._known = 0
        self._known_ticks = 0
        self._bends: list[tuple[int, int, int]] = []
        self._joined: dict[int, int] = {}

    @property
    def read_bytes(self) -> int:
        """KV cache and states read so far; the weights are not counted."""
        return self._traffic // self._byte

    def seconds(self, ticks: int) -> float | None:
        """Ticks as seconds; None where they are steps."""
        return None if self.ticks_per_second is None else ticks / self.ticks_per_second

    def join(self, ticket: int, computed: int) -> None:
        """A request with `computed` stored tokens decodes from this step on."""
        self._load(computed + 1, 1)
        if self._cut:
            self._joined[ticket] = self.step - computed - 1
            for i in range(len(self._cut)):
                self._bend(ticket, i)

    def leave(self, ticket: int, computed: int) -> None:
        """It stops before this step, with `computed` stored tokens."""
        self._load(computed + 1, -1)
        self._joined.pop(ticket, None)

    def _load(self, n: int, sign: int) -> None:
        """A request whose next token is its n-th, added (1) or taken away (-1)."""
        self._known = 0
        compute, read, more_compute, more_read = self._token, self._request, 0, 0
        for a, _, decode, each in self._lanes:
            seen = a.seen(n)
            compute += decode * seen
            read += each * seen
            if a.encoder is None and (a.window is None or n < a.window):
                more_compute += decode
                more_read += each
        self._compute += sign * compute
        self._read += sign * read
        self._more_compute += sign * more_compute
        self._more_read += sign * more_read

    def _bend(self, ticket: int, lane: int) -> None:
        """Note the step in which the window fills, or the next chunk begins."""
        a = self._cut[lane].seen
        base = self._joined[ticket]
        if a.window is not None:
            step = base + a.window
            if step > self.step:
                heappush(self._bends, (step, ticket, lane))
            return
        assert a.chunk is not None  # noqa: S101 - a lane that is cut has one of both
        n = self.step - base
        heappush(self._bends, (base + (n - 1) // a.chunk * a.chunk + a.chunk + 1, ticket, lane))

    def prefill(self, computed: int, chunk: int) -> None:
        """`chunk` tokens of a prompt after `computed` ones, in this step."""
        end = computed + chunk
        compute, read = self._token * chunk, self._request
        for a, prefill, _, each in self._lanes:
            before = a.seen_in_pass(computed) if computed else 0
            compute += prefill * (a.seen_in_pass(end) - before)
            read += each * _reach(a, computed, end)
        self._extra_compute += compute
        self._extra_read += read

    def close(self) -> None:
        """The end of a step with whatever it computed."""
        compute, read = self._compute + self._extra_compute, self._read + self._extra_read
        self._traffic += read
        if not self._timed:
            self.now += 1
        elif compute or read:
            self.now += max(compute, self._weights + read)
        self._extra_compute = self._extra_read = 0
        self._advance(1)

    def horizon(self, most: int) -> int:
        """Steps, up to `most`, until something bends."""
        return min(most, self._bends[0][0] - self.step) if self._bends else most

    def skip(self, steps: int) -> None:
        """That many decode steps, within the horizon."""
        if not steps:
            return
        self._traffic += steps * self._read + steps * (steps - 1) // 2 * self._more_read
        self.now += self._known_ticks if steps == self._known else self.ticks(steps)
        self._advance(steps)

    def ticks(self, steps: int) -> int:
        """What the next decode steps take, in ticks."""
        if not self._timed:
            return steps
        a, da = self._compute, self._more_compute
        b, db = self._weights + self._read, self._more_read
        last = steps - 1
        if a <= b and a + last * da <= b + last * db:
            return steps * b + steps * last // 2 * db
        if a >= b and a + last * da >= b + last * db:
            return steps * a + steps * last // 2 * da
        # They cross once: the first `c` steps are bound by one, the rest by the other.
        c = -(-abs(a - b) // abs(da - db))
        if a > b:
            a, da, b, db = b, db, a, da
        rest = steps - c
        ramp = steps * last // 2 - c * (c - 1) // 2
        return c * b + c * (c - 1) // 2 * db + rest * a + ramp * da

    def steps_until(self, tick: int, most: int) -> int:
        """The fewest decode steps, from 1 up to `most`, after which it is `tick` or later."""
        wait = tick - self.now
        if not self._timed:
            return max(1, min(wait, most))
        if wait <= 0:
            return 1
        guess = min(self._guess(wait), most)
        low, high = 1, most
        took = self.ticks(guess)
        if took >= wait:
            high = guess
            if guess == 1 or took - self._cost(guess - 1) < wait:
                self._known, self._known_ticks = guess, took
                return guess
        else:
            low = min(guess + 1, most)
            took = self.ticks(low)
            if low == most or took >= wait:
                self._known, self._known_ticks = low, took
                return low
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.ticks(middle) >= wait else (middle + 1, high)
        return low

    def _guess(self, wait: int) -> int:
        """About where k · a + k(k − 1)/2 · d passes `wait`, for whichever bound is larger now."""
        a, d = self._compute, self._more_compute
        b = self._weights + self._read
        if b >= a:
            a, d = b, self._more_read
        if not a:
            return 1
        half = a - d / 2
        return int(2 * wait / (half + sqrt(half * half + 2.0 * d * wait))) + 1

    def _cost(self, ahead: int) -> int:
        """What one decode step takes after so many others, in ticks."""
        return max(
            self._compute + ahead * self._more_compute,
            self._weights + self._read + ahead * self._more_read,
        )

    def idle(self, tick: int) -> None:
        """Nothing to do until `tick`; where ticks are steps these are idle ones."""
        if not self._timed:
            self._advance(tick - self.now)
        self.now = tick

    def _advance(self, steps: int) -> None:
        self._known = 0
        self.step += steps
        self._compute += steps * self._more_compute
        self._read += steps * self._more_read
        while self._bends and self._bends[0][0] <= self.step:
            _, ticket, i = heappop(self._bends)
            if ticket not in self._joined:
                continue
            a, _, decode, each = self._cut[i]
            if a.chunk is not None:
                self._compute -= decode * a.chunk
                self._read -= each * a.chunk
                self._bend(ticket, i)
            else:
                self._more_compute -= decode
                self._more_read -= each


def _reach(a: Attention, computed: int, end: int) -> int:
    """Tokens whose keys a chunk of a prompt reads: all that its first token sees, and its own."""
    if a.encoder is not None:
        return a.encoder
    if a.chunk is not None:
        return end - computed // a.chunk * a.chunk
    return end if a.window is None else min(end, end - computed - 1 + a.window)
