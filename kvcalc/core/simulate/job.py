"""What is simulated: requests as they arrive, the jobs they become, groups of layers, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kvcalc.core.simulate.blocks import Run

FULL, WINDOW, CHUNKED, STATE = "full", "window", "chunked", "state"


class HashIds(NamedTuple):
    """A prompt as a trace's own block hashes, `tokens` each; the last block may be cut short.

    Equal ids mean equal tokens from the prompt's first one on, as in Mooncake's traces.
    """

    ids: Sequence[int]
    tokens: int


#: (key, tokens) one after the other: the first tokens of the endless stream that a key names.
Segments = tuple[tuple[str, int], ...]
Prefix = Segments | HashIds | None


class Arrival(NamedTuple):
    """A request of a trace. `at` is seconds or a step, whichever the trace counts in."""

    id: str | int
    at: float
    prompt: int
    output: int
    prefix: Prefix = None


class GroupSpec(NamedTuple):
    """Layers that share a block table; a block of any group is one block of the pool.

    `span` is the window W of a window group, the chunk C of a chunked one.
    """

    kind: str = FULL
    block_size: int = 16
    span: int = 0

    def skipped(self, tokens: int) -> int:
        """Tokens at the front that the next one does not attend to, of `tokens` computed ones.

        Window: with W = 4 and 7 computed, the next attends to 4 … 7, so 4 are skipped. Chunked:
        all whole chunks.
        """
        if self.kind == WINDOW:
            return tokens - self.span + 1 if tokens >= self.span else 0
        return tokens // self.span * self.span if self.kind == CHUNKED else 0


class Settings(NamedTuple):
    """vLLM's scheduler settings, by its names; tokens, requests, shares of the blocks."""

    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    #: None: as many as the pool holds.
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    scheduler_reserve_full_isl: bool = True
    watermark: float = 0.0
    async_scheduling: bool = False

    @property
    def in_flight_tokens(self) -> int:
        """Tokens scheduled but not settled: two batches with asynchronous scheduling."""
        return self.max_num_batched_tokens * (2 if self.async_scheduling else 1)


class Job:
    """A request in the engine. `computed` counts stored tokens at `since`, the step it stands for.

    While a job decodes nothing here changes: it computes a token a step from step `since` on.
    """

    __slots__ = (
        "computed",
        "end",
        "first_step",
        "first_tick",
        "generated",
        "held",
        "hits",
        "id",
        "keys",
        "memory",
        "number",
        "output",
        "preemptions",
        "prompt",
        "queued",
        "run",
        "seat",
        "shared",
        "since",
        "start_tick",
        "ticket",
        "tokens",
        "wake",
    )

    def __init__(self, number: int, arrival: Arrival, tick: int, keys: Sequence[Any]) -> None:
        self.id = arrival.id
        #: Place in the trace, from 0.
        self.number = number
        self.prompt = arrival.prompt
        #: Tokens it will generate, cut at the engine's maximum length.
        self.output = arrival.output
        #: Identities of the full blocks that other requests may share, from the first on.
        self.keys = keys
        self.generated = 0
        #: Known tokens: what a (re)computation must cover before the next one can be sampled.
        self.tokens = arrival.prompt
        self.computed = 0
        #: The step in which it computes its `computed + 1`st token, or -1 while it prefills.
        self.since = -1
        #: The step of its last token, once it decodes.
        self.end = -1
        #: Order of admission; a job admitted again gets a new one.
        self.ticket = -1
        #: When it came, on the run's clock.
        self.queued = tick
        self.hits = -1
        self.preemptions = 0
        self.start_tick = -1
        self.first_step = -1
        self.first_tick = -1
        #: What the pool keeps about it: blocks, those others may share, its run in the queue.
        self.held = 0
        self.shared: list[Any] = []
        self.run: Run | None = None
        self.seat = 0
        self.wake = -1
        self.memory: Any = None

    def computed_at(self, step: int) -> int:
        """Stored tokens when `step` begins."""
        return self.computed if self.since < 0 else self.computed + step - self.since

    def settle(self, step: int) -> None:
        """It decodes no more: what it computed and generated before `step` is written down."""
        done = step - self.since
        self.computed += done
        self.generated += done
        self.since = -1
