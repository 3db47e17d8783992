"""Requests that begin with the same tokens: the prefix is stored once for each of its copies.

One request takes `one` units (bytes, blocks, tokens), of which `shared` lie in the prefix. B
requests with c different prefixes (one for each LoRA adapter or tenant) take

    min(B, c) · shared + B · (one − shared)

Source: vLLM's and SGLang's prefix caching, whose block hashes include the adapter.
"""

from __future__ import annotations

from kvcalc.core import shard
from kvcalc.core.cache import Compressed, Cross, bend_of
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.units import LONGEST


def check_prefix(prefix: int, tokens: int) -> None:
    """Refuse a prefix that a request of `tokens` cannot begin with.

    Raises:
        KvcalcError: "usage".
    """
    if prefix > tokens:
        raise KvcalcError(
            "usage", f"--shared-prefix {prefix:,} is longer than -c {tokens:,}",
            f"-c {prefix} or more: the prefix is part of each request",
        )  # fmt: skip


def held(requests: int, one: int, shared: int, copies: int = 1) -> int:
    """Units that so many requests take."""
    return min(requests, copies) * shared + requests * (one - shared)


def most(room: int, one: int, shared: int, copies: int = 1) -> int:
    """Requests that `room` units hold: each of the first copies brings its own prefix."""
    if room < one:
        return 0
    if room < copies * one:
        return room // one
    return LONGEST if one <= shared else (room - copies * shared) // (one - shared)


def shared_bytes(model: Model, storage: Storage, tokens: int, prefix: int, dcp: int = 1) -> int:
    """Bytes of one request of `tokens` that lie within its first `prefix` tokens.

    On one of `dcp` context ranks: its part of both, but for layers whose tokens stay together.
    """
    total = 0
    for group in model.groups:
        bend = bend_of(group.cache)
        held = shard.rank_tokens(group.cache, tokens, dcp)
        ours = prefix if held == tokens else prefix // dcp
        first_kept = max(0, held - bend) if bend is not None else 0
        kept = max(0, min(ours, held) - first_kept)
        if isinstance(group.cache, Compressed):
            kept //= group.cache.ratio
        if not isinstance(group.cache, Cross):
            total += len(group.layers) * kept * group.cache.entry_bytes(storage)
    return total
