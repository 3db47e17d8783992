"""Allocation policies: what is reserved for a request that uses n tokens.

naive reserves the maximum M for every request, as a static cache does; pow2 the next power of two
of what the request used, at most M; exact what it used, which nobody knows beforehand; paged whole
blocks of b tokens. Source of naive and paged: the KV-cache article, section 7; of all four: the
PagedAttention paper's comparison.
"""

from __future__ import annotations

from kvcalc.core.dtypes import Storage
from kvcalc.core.model import Model
from kvcalc.core.size import block_bytes
from kvcalc.core.units import pad

POLICIES = ("naive", "pow2", "exact", "paged")
#: Policies that reserve by the maximum: without it they have no answer.
NEED_MAXIMUM = frozenset({"naive", "pow2"})


def naive(used: int, maximum: int) -> int:  # noqa: ARG001 - the policies share one signature
    """M tokens, whatever is used."""
    return maximum


def pow2(used: int, maximum: int) -> int:
    """min(2^⌈log₂ n⌉, M) tokens: 500 take 512, 3,800 take 4,096."""
    return min(1 << max(used - 1, 0).bit_length(), maximum)


def exact(used: int) -> int:
    """n tokens: the bound of every policy that does not page."""
    return used


def paged(used: int, block_size: int) -> int:
    """⌈n / b⌉ · b tokens: 500 take 32 blocks of 16 = 512."""
    return pad(used, block_size)


def reserved_tokens(policy: str, used: int, maximum: int | None, block_size: int) -> int:
    """Tokens that `policy` reserves in a layer that keeps every token.

    Args:
        policy: One of `POLICIES`.
        used: Tokens that the request used.
        maximum: Tokens a request may use at most; naive and pow2 need it.
        block_size: Tokens of a block of paged.
    """
    if policy in NEED_MAXIMUM:
        assert maximum is not None, policy  # noqa: S101 - the caller asked for it by name
        return (naive if policy == "naive" else pow2)(used, maximum)
    return exact(used) if policy == "exact" else paged(used, block_size)


def allocated_bytes(
    policy: str, model: Model, s: Storage, used: int, maximum: int | None, block_size: int
) -> int:
    """Bytes that `policy` reserves in all layers for a request that used `used` tokens.

    A windowed layer reserves at most its window, a state is the same under every policy. paged
    pads what each layer keeps, so a window of 1,000 takes 63 blocks of 16.
    """
    if policy == "paged":
        return block_bytes(model, s, used, block_size)
    return model.bytes_at(reserved_tokens(policy, used, maximum, block_size), s)
