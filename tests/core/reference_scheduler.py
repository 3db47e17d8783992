"""vLLM's scheduler token by token: slow, each step visits every request.

It shares nothing with kvcalc.core.simulate but the classes that describe the question; its blocks
are in `reference_pool`, and after each step they are counted. Rules: vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvcalc.core.simulate.job import Arrival, GroupSpec, HashIds, Settings
from tests.core.reference_pool import SlowPool, Table, Token


def tokens_of(arrival: Arrival) -> list[Token]:
    """The tokens of the prompt: streams by name, then tokens nobody else has."""
    made: list[Token] = []
    if isinstance(arrival.prefix, HashIds):
        # A hash stands for its tokens and all before them; a token is its hash and its place.
        for index, name in enumerate(arrival.prefix.ids):
            made += [("hash", name, index, i) for i in range(arrival.prefix.tokens)]
    else:
        for key, count in arrival.prefix or ():
            made += [("stream", key, i) for i in range(count)]
    made = made[: arrival.prompt]
    return made + [("own", arrival.id, i) for i in range(len(made), arrival.prompt)]


@dataclass
class Req:
    """A request in the engine; `tables` has a list of blocks for each group."""

    arrival: Arrival
    output: int
    tokens: list[Token]
    tables: list[Table]
    computed: int = 0
    cached: list[int] = field(default_factory=list)
    generated: int = 0
    first_step: int = -1
    finish_step: int = -1
    preemptions: int = 0
    hits: int = -1
    #: Tokens of the step before, which with asynchronous scheduling are not settled yet.
    in_flight: int = 0

    @property
    def ended(self) -> bool:
        """It has all its tokens."""
        return self.generated == self.output


@dataclass
class RefStep:
    """What happened in a step."""

    step: int
    scheduled: dict[str | int, int]
    used: int
    running: int
    waiting: int
    preempted: list[str | int]
    #: Slots of held blocks without a token, in blocks; freed blocks count as full.
    wasted: float
    cached: int


class Reference:
    """Run it with `run`; then `steps`, `requests` and `rejected` tell what happened."""

    def __init__(self, groups: Sequence[GroupSpec], blocks: int, settings: Settings) -> None:
        self.groups, self.settings, self.blocks = groups, settings, blocks
        self.pool = SlowPool(groups, blocks, settings)
        self.watermark = int(settings.watermark * blocks)
        self.steps: list[RefStep] = []
        self.requests: list[Req] = []
        self.rejected = 0
        self.waiting: list[Req] = []
        self.running: list[Req] = []

    def run(self, arrivals: Sequence[Arrival]) -> None:
        """From the first arrival to the last token."""
        coming = [r for a in arrivals if (r := self._request(a)) is not None]
        self.requests = list(coming)
        step = 0
        while coming or self.waiting or self.running:
            while coming and coming[0].arrival.at <= step:
                self.waiting.append(coming.pop(0))
            late = [req for req in self.running if req.ended]
            if late == self.running and late and not self.waiting:
                # Nothing is left to schedule: what has ended is freed without a step.
                self._let_go(late)
                continue
            self._step(step, late)
            step += 1
        assert self.pool.used == 0

    def _request(self, arrival: Arrival) -> Req | None:
        s = self.settings
        most = s.max_model_len or 10**9
        if not s.enable_chunked_prefill:
            most = min(most, s.max_num_batched_tokens)
        output = min(arrival.output, most - arrival.prompt)
        last = arrival.prompt + output - 1
        need = sum(self.pool.capped(-(-last // g.block_size), g) for g in self.groups)
        if output <= 0 or need > self.blocks - 1:
            self.rejected += 1
            return None
        return Req(arrival, output, tokens_of(arrival), *self._nothing())

    def _nothing(self) -> tuple[list[Table], int, list[int]]:
        return [[] for _ in self.groups], 0, [0] * len(self.groups)

    def _let_go(self, ended: Sequence[Req]) -> None:
        for req in ended:
            if req in self.running:
                self.running.remove(req)
                self.pool.free_all(req.tables)

    def _step(self, step: int, late: list[Req]) -> None:
        scheduled: list[tuple[Req, int]] = []
        preempted: list[Req] = []
        self._schedule_running(scheduled, preempted)
        if not preempted:
            self._schedule_waiting(scheduled)
        counts = {id(req): n for req, n in scheduled}
        self.steps.append(RefStep(
            step, {r.arrival.id: n for r, n in scheduled}, self.pool.used, len(self.running),
            len(self.waiting), [r.arrival.id for r in preempted],
            sum(
                len(table) - (req.computed + counts.get(id(req), 0)) / g.block_size
                for req in self.running
                for g, table in zip(self.groups, req.tables, strict=True)
            ),
            self.pool.content,
        ))  # fmt: skip
        self.pool.check([table for req in self.running for table in req.tables])
        self._let_go(late)
        for req in self.running:
            req.in_flight = 0
        for req, count in scheduled:
            req.computed += count
            req.in_flight = count if self.settings.async_scheduling else 0
        self._sample(step, scheduled)

    def _sample(self, step: int, scheduled: Sequence[tuple[Req, int]]) -> None:
        """A token for each request that has computed all it knows."""
        for req, _ in scheduled:
            if req.computed < len(req.tokens):
                continue
            req.tokens.append(("generated", req.arrival.id, req.generated))
            req.generated += 1
            if req.first_step < 0:
                req.first_step = step
            if req.ended:
                req.finish_step = step
                if not self.settings.async_scheduling:
                    self._let_go([req])

    def _schedule_running(self, scheduled: list[tuple[Req, int]], preempted: list[Req]) -> None:
        budget, index = self.settings.max_num_batched_tokens, 0
        while index < len(self.running) and budget > 0:
            req = self.running[index]
            index += 1
            if req.ended:
                continue
            count = min(len(req.tokens) - req.computed, budget)
            self.pool.slide(req.tables, req.computed - req.in_flight)
            while not self.pool.lengthen(req.tables, req.computed + count):
                victim = self.running.pop()
                preempted.append(victim)
                self._preempt(victim)
                if victim is req:
                    return
            self.pool.remember(req.tokens, req.tables, req.cached, req.computed + count)
            scheduled.append((req, count))
            budget -= count

    def _preempt(self, victim: Req) -> None:
        self.pool.free_all(victim.tables)
        if victim.ended:
            return
        victim.tables, victim.computed, victim.cached = self._nothing()
        victim.in_flight = 0
        victim.preemptions += 1
        self.waiting.insert(0, victim)

    def _schedule_waiting(self, scheduled: list[tuple[Req, int]]) -> None:
        s = self.settings
        budget = s.max_num_batched_tokens - sum(n for _, n in scheduled)
        while self.waiting and budget > 0 and len(self.running) < s.max_num_seqs:
            req = self.waiting[0]
            length, hits = self.pool.lookup(req.tokens)
            count = len(req.tokens) - length
            if count > budget and not s.enable_chunked_prefill:
                return
            count = min(count, budget)
            need = self.pool.needed(hits, length, length + count, cap=False)
            if s.scheduler_reserve_full_isl:
                need = max(need, self.pool.needed(hits, length, len(req.tokens), cap=True))
            if need + (self.watermark if self.running else 0) > len(self.pool.queue):
                return
            req.tables = self.pool.hold(hits, length)
            req.cached = [len(table) for table in req.tables]
            assert self.pool.lengthen(req.tables, length + count)
            req.computed = length
            self.pool.remember(req.tokens, req.tables, req.cached, length + count)
            self.running.append(self.waiting.pop(0))
            req.hits = length if req.hits < 0 else req.hits
            scheduled.append((req, count))
            budget -= count
