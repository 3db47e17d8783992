"""What shapes the figures of `offload`, and what they do not say, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvcalc.core.cache import Latent
from kvcalc.core.results.offload import Note, OffloadContext, Pool
from kvcalc.core.size import unwindowed_bytes
from kvcalc.core.units import format_bytes

if TYPE_CHECKING:
    from kvcalc.core.offload import Store


def notes_of(
    store: Store, first: OffloadContext, pool: Pool | None, *, recomputed: bool
) -> tuple[Note, ...]:
    """The notes that hold for this answer, of its first context; the most important first."""
    notes = [*_losses(first), *_copies(store, first, pool), *_stored(store, first)]
    if store.ask.bandwidth is not None and store.rank_count > 1:
        notes.append(Note("links", _links(store)))
    if recomputed:
        text = (
            "Recomputing is a bound from bandwidth and FLOPs, so nothing real is quicker: a link "
            "that beats it surely wins."
        )
        notes.append(Note("recompute_ceiling", text))
    where = "GPU" if store.rank_count == 1 else "GPUs"
    text = "Offload does not raise the longest context: a running request must be whole on the "
    return (*notes, Note("longest_context", f"{text}{where}."))


def _losses(first: OffloadContext) -> Iterator[Note]:
    """What a pool that is too small means for hits."""
    if first.kept_fraction is not None and first.kept_fraction < 1:
        text = (
            "A session that lost its first chunk is recomputed from there on; where all come in "
            "turn and the least recently used goes first, none finds anything kept."
        )
        yield Note("cyclic_visits", text)


def _copies(store: Store, first: OffloadContext, pool: Pool | None) -> Iterator[Note]:
    """What ranks store more than once, and what one copy for all of them would come to."""
    once, stored = first.bytes_per_session, first.stored_bytes_per_session
    if stored <= once:
        return
    what = "KV heads beyond their number"
    if any(isinstance(g.cache, Latent) for g in store.model.groups):
        what = "MLA's latent"
    text = (
        f"{store.rank_count} ranks store {format_bytes(stored)} of a session that takes "
        f"{format_bytes(once)} once: tensor parallelism cannot split {what}, so more ranks hold no "
        "more of it."
    )
    if what == "MLA's latent":
        text += " LMCache keeps it on its first rank alone, recent vLLM once for all"
        more = "" if pool is None else f", whose pool then holds {pool.tokens_stored_once:,} tokens"
        text += f"{more}."
    yield Note("copies", text)


def _stored(store: Store, first: OffloadContext) -> Iterator[Note]:
    """How what is stored differs from a session's bytes at its length."""
    once = first.bytes_per_session
    rest = first.tokens - first.kept_tokens
    if rest:
        last = "the last token is" if rest == 1 else f"the last {rest:,} tokens are"
        text = f"Only whole chunks of {store.ask.chunk:,} tokens are kept: {last} recomputed."
        yield Note("whole_chunks", text)
    full = unwindowed_bytes(store.model, store.storage, first.kept_tokens)
    if full > once:
        text = (
            "Windows count as the cache holds them; a store that keeps every chunk of their "
            f"layers takes up to {format_bytes(full)} a session."
        )
        yield Note("windows", text)
    fixed = store.model.fixed_bytes(store.storage)
    if fixed:
        text = f"{format_bytes(fixed)} of a session do not grow with it (states, encoder keys)."
        yield Note("states", text)


def _links(store: Store) -> str:
    if store.ask.bandwidth_per == "rank":
        return f"Each of the {store.rank_count} ranks moves its share over a link of its own."
    return (
        f"One link carries the shares of the {store.rank_count} ranks; --bandwidth-per rank gives "
        "each its own."
    )
