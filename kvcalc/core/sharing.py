"""Requests that begin with the same tokens: the prefix is stored once for each of its copies.

One request takes `one` units (bytes, blocks, tokens), of which `shared` lie in the prefix. B
requests with c different prefixes (one for each LoRA adapter or tenant) take

    min(B, c) · shared + B · (one − shared)

Source: vLLM's and SGLang's prefix caching, whose block hashes include the adapter.
"""

from __future__ import annotations

from kvcalc.core.units import LONGEST


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
