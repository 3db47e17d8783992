"""What follows from a log's own figures and the model's shape, whatever the engine's budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcalc.api.check_context import caches_of
from kvcalc.api.check_pools import first_rank, pools_of
from kvcalc.api.check_predict import Expected, Predicted
from kvcalc.api.check_setup import Setup
from kvcalc.core import shard
from kvcalc.core.cache import Cache, Compressed, Full, Indexer, Latent, SlidingWindow, State
from kvcalc.core.dtypes import row_bytes
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.units import GIB, format_bytes
from kvcalc.logs.facts import Fact, Log

_ROUNDED = "the printed digits"
#: Page sizes of SGLang's attention backends.
_PAGES = (1, 16, 32, 64, 128, 256)
#: LMDeploy's cache_block_seq_len.
_PAGE = 64
#: No block of all layers is larger than this.
_BLOCK = GIB // 32


def exact_of(setup: Setup) -> Expected:
    """The figures that need no budget: sizes of pools by tokens, caches by cells, ratios."""
    find = _ENGINES.get(setup.log.engine)
    if find is None:
        return Expected()
    try:
        return Expected(tuple(find(setup)))
    except KvcalcError as error:
        return Expected(reasons=(error.message,))


def _ratio(setup: Setup) -> list[Predicted]:
    """vLLM: requests of the full length are tokens over length, where all layers hold all tokens.

    With a model the engine's rules say more; without one this is all that can be said.
    """
    log = setup.log
    length, tokens = setup.settings.get("max_model_len"), log.smallest("kv_tokens")
    if not isinstance(length, int) or length < 1:
        return []
    if tokens is None:
        blocks = log.smallest("kv_blocks")
        if blocks is None or log.last("cpu_blocks") is None:
            return []
        size = int(setup.settings.get("block_size", 16))
        best = low = high = blocks.value * size / length
        why = f"blocks × {size} tokens / {length:,}"
    else:
        # From 0.20.1 on the tokens are what int() leaves of concurrency × length.
        best, low, high = (n / length for n in (tokens.value, tokens.value, tokens.value + 1))
        why = f"tokens / {length:,}"
        printed = log.smallest("max_concurrency")
        if printed is None or printed.high < low or printed.low > high:
            return []
    return [Predicted("max_concurrency", best, low, high, _ROUNDED, why)]


def _sglang(setup: Setup) -> list[Predicted]:
    """K and V of each pool by its tokens, and all by the memory before and after the load."""
    figures, plan = _left_over(setup), setup.plan
    pools = pools_of(setup)
    if plan is None or not pools:
        return figures
    ranks = shard.stage_ranks(plan.model, plan.parallel)
    for number, (fact, windows) in enumerate(pools):
        for item, part in (("kv_key", "key"), ("kv_value", "value"), ("kv_latent", "latent")):
            printed = [f for f in setup.log.all(item) if f.rank == fact.rank]
            if not printed:
                continue
            rows = (_row(rank, plan.storage, part, windows=windows) for rank in ranks)
            sizes = [row for row in rows if row is not None]
            if len(sizes) < len(ranks):
                return figures
            size, tokens = max(sizes), int(fact.value)
            page = _page(setup, size, tokens, printed[min(number, len(printed) - 1)])
            # A page beyond the tokens takes what is padded.
            best = size * (tokens + page)
            why = f"{tokens:,} tokens and a spare page of {page:,}, {size:,} bytes each"
            figures.append(Predicted(item, best, best, best, _ROUNDED, why, fact.device))
    return figures


def _page(setup: Setup, size: int, tokens: int, printed: Fact) -> int:
    """The page as set; of a log that does not tell it the first usual one that fits."""
    given = setup.settings.get("page_size")
    if given is not None:
        return int(given)
    fits = (p for p in _PAGES if printed.low <= size * (tokens + p) <= printed.high)
    return next(fits, 1)


def _left_over(setup: Setup) -> list[Predicted]:
    """SGLang's rule: pools = free after the load − free before it × (1 − mem_fraction_static)."""
    log, share = setup.log, setup.settings.get("mem_fraction_static")
    before, after = log.smallest("free_before_weights"), log.smallest("free_after_weights")
    pools = [f for item in ("kv_pool", "conv_state", "ssm_state") for f in first_rank(log, item)]
    if not isinstance(share, float) or before is None or after is None or not pools:
        return []
    rest = 1 - share
    low, high = after.low - before.high * rest, after.high - before.low * rest
    # Pools are whole tokens and slots of all layers, so a little is left over.
    low -= 0.02 * GIB
    why = (
        f"{after.value / GIB:.2f} free after the load − {before.value / GIB:.2f} before it × "
        f"{rest:.3g} that mem_fraction_static leaves alone, GiB"
    )
    return [Predicted("pools", after.value - before.value * rest, low, high, _ROUNDED, why)]


def _row(model: Model, s: Any, part: str, *, windows: bool | None) -> int | None:
    """Bytes of one token's keys, values or latents on one rank; None for caches of other kinds.

    `windows` takes the window layers alone (True) or all others (False).
    """
    total = 0
    for layer in model.layers:
        for cache in layer:
            if windows is not None and isinstance(cache, SlidingWindow) != windows:
                continue
            size = _part(cache, s, part)
            if size is None:
                return None
            total += size
    return total


def _part(cache: Cache, s: Any, part: str) -> int | None:
    if isinstance(cache, State):
        return 0
    if isinstance(cache, (Indexer, Compressed)):
        return None
    if isinstance(cache, Full) and part in {"key", "value"}:
        dim, kind = (cache.key_dim, s.k) if part == "key" else (cache.value_dim, s.v)
        return row_bytes(kind, cache.kv_heads, dim)
    if isinstance(cache, Latent) and part == "latent":
        return cache.entry_bytes(s)
    return None


def _paged(setup: Setup) -> list[Predicted]:
    """TensorRT-LLM and LMDeploy: tokens are whole blocks, bytes are tokens."""
    log, figures = setup.log, []
    names = {"tensorrt-llm": "tokens_per_block", "lmdeploy": "cache_block_seq_len"}
    page = int(setup.settings.get(names[log.engine], 0))
    blocks = log.smallest("kv_blocks")
    tokens = log.last("kv_tokens")
    if blocks is not None and page and tokens is not None:
        best = blocks.value * page
        figures.append(Predicted("kv_tokens", best, best, best, "exact",
                                 f"{blocks.value:,.0f} blocks of {page:,} tokens"))  # fmt: skip
    size = _token_bytes(setup)
    if not page and log.engine == "lmdeploy":
        page = _block_tokens(log, size)
    if size is not None and page:
        held = tokens.value if tokens is not None else (blocks.value * page if blocks else None)
        why = f"blocks of {page:,} tokens, {format_bytes(page * size)} each"
        sizes = {"block_bytes": page * size, "kv_pool": None if held is None else held * size}
        for item, best_ in sizes.items():
            if best_ is not None and log.last(item) is not None:
                figures.append(Predicted(item, best_, best_, best_, _ROUNDED, why))
    return figures + _share_of_free(setup)


def _block_tokens(log: Log, size: int | None) -> int:
    """LMDeploy's cache_block_seq_len where the log does not tell it: 64, at first (2023) 128."""
    block = log.last("block_bytes")
    if block is None or size is None:
        return _PAGE
    fits = (n for n in (_PAGE, 2 * _PAGE) if block.low <= n * size <= block.high)
    return next(fits, _PAGE)


def _token_bytes(setup: Setup) -> int | None:
    """Bytes of a token in all layers of the fullest rank; None where layers keep unlike tokens.

    LMDeploy keeps every token of window layers, and scales beside quantised K and V.
    """
    plan = setup.plan
    if plan is None:
        return None
    ranks = shard.stage_ranks(plan.model, plan.parallel)
    if setup.log.engine == "lmdeploy":
        from kvcalc.engines.lmdeploy import LMDEPLOY  # noqa: PLC0415 - one engine, one import

        if any(isinstance(g.cache, State) for g in plan.model.groups):
            return None
        return max(LMDEPLOY.token_bytes(plan, rank) for rank in ranks)
    if _mixed(plan.model):
        return None
    return max(rank.token_bytes(plan.storage) for rank in ranks)


def _mixed(model: Model) -> bool:
    """Whether not every layer grows by every token."""
    return any(isinstance(g.cache, (SlidingWindow, State)) for g in model.groups)


def _share_of_free(setup: Setup) -> list[Predicted]:
    """The pool is a share of what the load leaves free, in whole blocks."""
    setting, default = {
        "tensorrt-llm": ("free_gpu_memory_fraction", 0.9),
        "lmdeploy": ("cache_max_entry_count", 0.8),
    }[setup.log.engine]
    free = setup.log.smallest("free_after_weights")
    share = setup.settings.get(setting, default)
    if free is None or not isinstance(share, float):
        return []
    low, best, high = (n * share for n in (free.low, free.value, free.high))
    why = f"{setting} {share:g} of the {free.value / GIB:.2f} GiB that are free"
    found = [Predicted("kv_pool", best, low - _BLOCK, high, f"{_ROUNDED}, a block less", why)]
    block = _block_bytes(setup)
    if block and setup.log.last("kv_pool") is None:
        # Tokens are rounded down, blocks of them up.
        ends = (low // block, high // block + 1)
        found.append(Predicted("kv_blocks", best // block, *ends, _ROUNDED,
                               f"{why}, {format_bytes(block)} each"))  # fmt: skip
    return found


def _block_bytes(setup: Setup) -> int | None:
    """A block of the release's tokens."""
    size, plan = _token_bytes(setup), setup.plan
    if size is None or plan is None or plan.rules is None or plan.version is None:
        return None
    try:
        return size * (plan.rules.block_tokens(plan) or 0)
    except KvcalcError:  # a version that is no release
        return None


_ENGINES: dict[str, Callable[[Setup], list[Predicted]]] = {
    "vllm": _ratio,
    "sglang": _sglang,
    "tensorrt-llm": _paged,
    "lmdeploy": _paged,
    "llama.cpp": caches_of,
    "ik_llama.cpp": caches_of,
    "ollama": caches_of,
}
