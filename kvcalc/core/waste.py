"""What allocation wastes: reserved against used, and what that makes of a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from kvcalc.core.alloc import NEED_MAXIMUM, POLICIES, allocated_bytes, reserved_tokens
from kvcalc.core.dtypes import Storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import KvDtype, Warn
from kvcalc.core.results.waste import PolicyWaste, PoolSource, RequestUse, TraceUse, WasteResult
from kvcalc.core.size import model_info


def waste(
    model: Model,
    storage: Storage,
    requests: Sequence[int] | Mapping[int, int],
    *,
    maximum: int | None = None,
    policies: Sequence[str] = POLICIES,
    block_size: int = 16,
    pool: PoolSource | None = None,
    trace: TraceUse | None = None,
    warnings: tuple[Warn, ...] = (),
) -> WasteResult:
    """Bytes reserved, used and wasted for `requests` under each policy.

    Args:
        model: The model whose caches are allocated.
        storage: How K and V are stored.
        requests: Tokens that each request really used, at least one request; or how many
            requests used so many tokens, for which no single request is listed.
        maximum: Tokens that naive reserves and pow2 is capped at.
        policies: Names of `alloc.POLICIES`, in the order of the answer.
        block_size: Tokens of a block of paged.
        pool: Memory for KV cache, for the requests it holds.
        trace: Where the requests come from.
        warnings: What the asker should know of the inputs.

    Raises:
        KvcalcError: "usage" if naive or pow2 lack the maximum; "context_too_long" if a request
            is longer than it; "not_divisible" if a block format does not divide.
    """
    _check(requests, maximum, policies)
    lengths = requests if isinstance(requests, Mapping) else Counter(requests)
    count = sum(lengths.values())
    use = {
        n: RequestUse(
            n,
            model.bytes_at(n, storage),
            {p: allocated_bytes(p, model, storage, n, maximum, block_size) for p in policies},
        )
        for n in lengths
    }
    used = sum(times * use[n].used_bytes for n, times in lengths.items())
    size = pool.bytes if pool is not None else None
    totals = {
        p: sum(times * use[n].allocated_bytes[p] for n, times in lengths.items()) for p in policies
    }
    held = {p: _per_pool(size, count, total) for p, total in totals.items()}
    effective = None
    if size is not None and maximum is not None:
        naive = count * model.bytes_at(maximum, storage)
        slots = _per_pool(size, count, naive)
        if slots is not None:
            effective = effective_requests(slots, _share(naive - used, naive))
    return WasteResult(
        model=model_info(model),
        kv_dtype=KvDtype(storage.k.key, storage.v.key),
        requests=count,
        max_context_tokens=maximum,
        block_size=block_size,
        used_tokens=sum(n * times for n, times in lengths.items()),
        pool_bytes=size,
        pool=pool,
        policies=tuple(
            PolicyWaste(
                policy=p,
                allocated_bytes=total,
                used_bytes=used,
                wasted_bytes=total - used,
                waste_fraction=float(_share(total - used, total)),
                requests_per_pool=held[p],
                effective_requests=effective,
                allocated_tokens=sum(
                    times * reserved_tokens(p, n, maximum, block_size)
                    for n, times in lengths.items()
                ),
            )
            for p, total in totals.items()
        ),
        per_request=() if isinstance(requests, Mapping) else tuple(use[n] for n in requests),
        trace=trace,
        effective_requests=effective,
        warnings=warnings,
    )


def effective_requests(slots: int, waste_fraction: Fraction) -> float:
    """slots · (1 − waste): 36 slots at 62% do the work of 13.68 requests (the article, section 7).

    Exact in fractions and rounded once, to the nearest float: 36 · (1 − 0.62) in floats is not.
    """
    return float(slots * (1 - waste_fraction))


def of_slots(slots: int, waste_fraction: Fraction) -> WasteResult:
    """The answer without a model or lengths: what `slots` wasting `waste_fraction` each do."""
    return WasteResult(
        effective_requests=effective_requests(slots, waste_fraction),
        slots=slots,
        waste_fraction=float(waste_fraction),
    )


def _check(requests: Collection[int], maximum: int | None, policies: Sequence[str]) -> None:
    lacking = [p for p in policies if p in NEED_MAXIMUM]
    if maximum is None and lacking:
        raise KvcalcError(
            "usage",
            f"--max-context is missing: {' and '.join(lacking)} reserve"
            f"{'' if len(lacking) > 1 else 's'} by it",
            "give --max-context TOKENS, or --policy exact,paged",
        )
    longest = max(requests)
    if maximum is not None and longest > maximum:
        raise KvcalcError(
            "context_too_long",
            f"--request {longest:,} is longer than --max-context {maximum:,}",
            f"--max-context {longest} or more; a request cannot outgrow what was reserved",
        )


def _share(part: int, whole: int) -> Fraction:
    """part / whole; a model without a cache reserves nothing and wastes nothing."""
    return Fraction(part, whole) if whole else Fraction(0)


def _per_pool(pool: int | None, requests: int, allocated: int) -> int | None:
    """⌊pool · requests / allocated⌋: requests like these that the pool holds."""
    if pool is None or not allocated:
        return None
    return pool * requests // allocated
