"""Time and traffic of steps: ticks of a roofline, or steps alone.

A step takes max(FLOPs / (FLOP/s), (weights + KV read) / (bandwidth)), as `core.speed` has it. Ticks
are 1 / (FLOP/s · bandwidth) of a second, shortened by what both share: then every step is a whole
number of them, sums are exact, and a thousand decode steps cost one formula. While requests only
decode, FLOPs and bytes grow by the same amount each step, except where a window fills or a chunk
ends; no span of steps crosses such a bend.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import gcd, isqrt
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


class Clock:
    """The time of a run, its traffic, and the load of the requests that decode now."""

    def __init__(self, work: Work = NO_WORK, rate: Rate | None = None) -> None:
        self.step = 0
        self.now = 0
        self.read_bytes = 0
        self._work = work
        self._weights = work.weight_bytes
        self._timed = rate is not None
        shared = gcd(rate.flops, rate.bandwidth) if rate is not None else 1
        #: Ticks of a FLOP and of a byte.
        self._flop = rate.bandwidth // shared if rate is not None else 0
        self._byte = rate.flops // shared if rate is not None else 0
        #: None where ticks are steps.
        self.ticks_per_second = self._flop * rate.flops if rate is not None else None
        #: FLOPs and bytes of the next decode step, and what each step adds to them.
        self._flops = self._more_flops = 0
        self._read = self._more_read = 0
        #: The same of prompts in this step.
        self._extra_flops = self._extra_read = 0
        self._cut = [lane for lane in work.lanes if _span(lane)]
        #: What `ticks` said last, for so many steps; 0 where it holds no more.
        self._known = 0
        self._known_ticks = 0
        self._bends: list[tuple[int, int, int]] = []
        self._joined: dict[int, int] = {}

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
        work = self._work
        self._known = 0
        flops, read, more_flops, more_read = work.token_flops, work.request_bytes, 0, 0
        for a, each in work.lanes:
            seen = a.seen(n)
            flops += a.decode * seen
            read += each * seen
            if a.encoder is None and (a.window is None or n < a.window):
                more_flops += a.decode
                more_read += each
        self._flops += sign * flops
        self._read += sign * read
        self._more_flops += sign * more_flops
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
        work = self._work
        end = computed + chunk
        flops, read = work.token_flops * chunk, work.request_bytes
        for a, each in work.lanes:
            flops += a.prefill * (a.seen_in_pass(end) - a.seen_in_pass(computed))
            read += each * _reach(a, computed, end)
        self._extra_flops += flops
        self._extra_read += read

    def close(self) -> None:
        """The end of a step with whatever it computed."""
        read = self._read + self._extra_read
        self.read_bytes += read
        flops = self._flops + self._extra_flops
        if not self._timed:
            self.now += 1
        elif flops or read:
            self.now += max(flops * self._flop, (self._weights + read) * self._byte)
        self._extra_flops = self._extra_read = 0
        self._advance(1)

    def horizon(self, most: int) -> int:
        """Steps, up to `most`, until something bends."""
        return min(most, self._bends[0][0] - self.step) if self._bends else most

    def skip(self, steps: int) -> None:
        """That many decode steps, within the horizon."""
        if not steps:
            return
        self.read_bytes += steps * self._read + steps * (steps - 1) // 2 * self._more_read
        self.now += self._known_ticks if steps == self._known else self.ticks(steps)
        self._advance(steps)

    def ticks(self, steps: int) -> int:
        """What the next decode steps take, in ticks."""
        if not self._timed:
            return steps
        a, da = self._flops * self._flop, self._more_flops * self._flop
        b, db = (self._weights + self._read) * self._byte, self._more_read * self._byte
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
            if guess == 1 or self.ticks(guess - 1) < wait:
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
        """Where k · a + k²/2 · d passes `wait`, for whichever bound is larger now."""
        a = self._flops * self._flop
        d = self._more_flops * self._flop
        b = (self._weights + self._read) * self._byte
        if b >= a:
            a, d = b, self._more_read * self._byte
        if not a:
            return 1
        if not d:
            return -(-wait // a)
        half = a - d // 2
        return max(1, (isqrt(half * half + 2 * d * wait) - half) // d + 1)

    def idle(self, tick: int) -> None:
        """Nothing to do until `tick`; where ticks are steps these are idle ones."""
        if not self._timed:
            self._advance(tick - self.now)
        self.now = tick

    def _advance(self, steps: int) -> None:
        self._known = 0
        self.step += steps
        self._flops += steps * self._more_flops
        self._read += steps * self._more_read
        while self._bends and self._bends[0][0] <= self.step:
            _, ticket, i = heappop(self._bends)
            if ticket not in self._joined:
                continue
            a, each = self._cut[i]
            if a.chunk is not None:
                self._flops -= a.decode * a.chunk
                self._read -= each * a.chunk
                self._bend(ticket, i)
            else:
                self._more_flops -= a.decode
                self._more_read -= each


def _span(lane: Lane) -> int:
    return lane.seen.window or lane.seen.chunk or 0


def _reach(a: Attention, computed: int, end: int) -> int:
    """Tokens whose keys a chunk of a prompt reads: all that its first token sees, and its own."""
    if a.encoder is not None:
        return a.encoder
    if a.chunk is not None:
        return end - computed // a.chunk * a.chunk
    return end if a.window is None else min(end, end - computed - 1 + a.window)
