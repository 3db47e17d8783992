"""The answer of `kvcalc offload`: KV kept outside the GPUs, and moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kvcalc.core.results.base import KvDtype, ModelInfo, Result, Warn
from kvcalc.core.results.size import Gpus
from kvcalc.core.results.speed import SpeedGpu


class OffloadContext(NamedTuple):
    """Sessions of one length. Only `kept_tokens` of each are stored: whole chunks, if it is chunks.

    `bytes_per_session` is one copy, `bytes_per_rank` the largest rank's share,
    `stored_bytes_per_session` what all ranks store, copies included. The `total_…` figures are of
    all sessions, a shared prefix stored once. `pool_…` are what the pool holds of them (tokens in
    sessions of this length), null without a pool; `kept_fraction` is the part of all sessions that
    it holds at most. Seconds are those of the given bandwidth, null without one.
    `recompute_seconds` is the least that a prefill of the kept tokens takes; a link faster than
    `break_even_bytes_per_second` is surely quicker.
    """

    tokens: int
    kept_tokens: int
    bytes_per_session: int
    bytes_per_rank: int
    stored_bytes_per_session: int
    total_bytes: int
    total_bytes_per_rank: int
    total_tokens: int
    pool_tokens: int | None
    pool_sessions: int | None
    kept_fraction: float | None
    transfer_seconds: float | None
    total_transfer_seconds: float | None
    recompute_seconds: float | None
    break_even_bytes_per_second: int | None
    stream_bytes_per_second: int | None


class Pool(NamedTuple):
    """Host RAM or disk given to KV. `per` is what the given size counts: "rank" or "total".

    Tokens, sessions and kept fraction are those of the first context. `tokens_stored_once` is what
    the whole pool would hold of one copy for all ranks: equal where nothing is copied.
    """

    per: str
    bytes_per_rank: int
    total_bytes: int
    tokens: int
    tokens_stored_once: int
    sessions: int
    kept_fraction: float
    host_ram_bytes: int | None
    host_ram_fraction: float | None


class Link(NamedTuple):
    """The bandwidth: of one link that all ranks share ("total") or of each rank's own ("rank")."""

    per: str
    bytes_per_second: int
    bits_per_second: int


class Stream(NamedTuple):
    """Requests of the first context, all tokens of each moved; `link_fraction` of the bandwidth."""

    requests_per_second: float
    bytes_per_request: int
    bytes_per_second: int
    bits_per_second: int
    link_fraction: float | None


class PoolSetting(NamedTuple):
    """What to pass to an engine: `value` in `unit`, which it counts per rank or in all.

    `bytes` is what that makes of the rank's or of the whole pool.
    """

    engine: str
    argument: str
    value: str
    unit: str
    per: str
    bytes: int


class Note(NamedTuple):
    """Something that shapes the figures, or what they do not say."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffloadResult(Result):
    """What sessions take outside the GPUs, what a pool holds of them, how long they move."""

    command: ClassVar[str] = "offload"
    main_list: ClassVar[str] = "contexts"

    model: ModelInfo
    kv_dtype: KvDtype
    parallel: Gpus
    sessions: int
    shared_prefix_tokens: int
    chunk_tokens: int | None
    bytes_per_token: int
    bytes_per_token_per_rank: int
    contexts: tuple[OffloadContext, ...]
    pool: Pool | None
    bandwidth: Link | None
    stream: Stream | None
    gpu: SpeedGpu | None
    settings: tuple[PoolSetting, ...]
    #: Null where nothing was asked that has a yes or no: no pool, no stream over a link.
    fits: bool | None
    notes: tuple[Note, ...]
    warnings: tuple[Warn, ...] = ()

    @property
    def yes(self) -> bool:
        """The pool holds the sessions, and the link carries the stream."""
        return self.fits is not False
