"""SGLang's pools: bytes of a token, and how memory is shared between full, window and state pools.

    tokens = floor(memory / (full cell + ratio · window cell)), in whole pages

Hybrids share memory between states and tokens as ratio : 1. Sources: SGLang 0.5.23
`model_executor/pool_configurator.py` and `mem_cache/kv_cache_configurator.py`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.cache import (
    Cache,
    Chunked,
    Compressed,
    Cross,
    Full,
    Indexer,
    Latent,
    SlidingWindow,
    State,
)
from kvcalc.core.dtypes import Dtype, dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import LONGEST, Plan
from kvcalc.core.units import cdiv, pad
from kvcalc.engines.paging import Release

_FORMATS = ("bf16", "fp16", "fp8", "fp8_e5m2", "mxfp8", "nvfp4", "mxfp4")
#: Model types whose window layers have a pool of their own; others keep every token.
_WINDOWED = frozenset({
    "llama4", "llama4_text", "gpt_oss", "mimo_v2_flash", "mimo_v2", "step3p5", "step3p7", "gemma4",
    "gemma4_text", "gemma4_unified", "gemma4_unified_text", "laguna", "mellum", "muse_glimmer",
})  # fmt: skip
#: Model types whose states have ping-pong buffers (five a request), read in 0.5.23.
_EXTRA_BUFFER = frozenset({
    "kimi_linear", "kimi_k3", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text",
    "qwen3_next", "bailing_moe_v2_5", "bailing_hybrid", "falcon_h1", "granitemoehybrid",
    "glm5_next", "nemotron_h", "nemotron_h_puzzle",
})  # fmt: skip
_SLOTS = {"no_buffer": 3, "extra_buffer": 5, "extra_buffer_lazy": 4}
#: A sparse latent row in fp8: four fp32 scales of 128 elements each, and a bf16 rope key.
_SCALED, _INDEX_BLOCK = 128, 128
_SWA_RATIO, _STATE_RATIO, _DRAFTS = "0.8", "0.9", 4
#: The estimate of requests: between these, half a thousand for each full context.
_LEAST, _MOST, _EACH = 2048, 4096, 512


class Pools(NamedTuple):
    """One rank's pools; bytes of one token, or of one request's state."""

    page: int
    full: int
    windowed: int
    window: int
    #: Window tokens for each full one.
    ratio: Fraction
    state: int
    #: States taken by a request, memory of states for the tokens', states that are set.
    state_slots: int
    state_ratio: Fraction
    fixed_states: int | None
    #: From 0.5.23 one state is kept for padding before slots are counted.
    padded: bool
    #: Requests at once that are asked for.
    wanted: int | None
    most_tokens: int | None
    dcp: int = 1
    #: Drafted tokens, each with a copy of the state while it is checked.
    drafts: int = 0

    @property
    def cell(self) -> Fraction:
        """Bytes of one token of capacity; all-window models have no full pool to relate to."""
        if self.windowed and not self.full:
            return Fraction(self.windowed)
        return self.full + self.ratio * self.windowed

    def tokens(self, size: int) -> int:
        """Tokens of one rank's pool, in whole pages."""
        cell = self.cell
        if not cell:
            return 0
        count = max(size, 0) * cell.denominator // cell.numerator
        if self.most_tokens is not None:
            count = min(count, self.most_tokens)
        return count // self.page * self.page

    def window_tokens(self, tokens: int) -> int:
        """Tokens of the window pool beside `tokens` of the full one."""
        if not self.full:
            return tokens
        return int(tokens * self.ratio) // self.page * self.page

    def states(self, size: int) -> int:
        """State slots beside a token pool of `size`: as many bytes as the ratio says."""
        if self.fixed_states is not None:
            return self.fixed_states
        if not self.state:
            return LONGEST
        return self._slots(size * self.state_ratio)

    def _slots(self, budget: Fraction) -> int:
        """State slots of a budget, with a padding slot and a copy for each drafted token.

        slots = (budget − state · (1 + D)) / (state · (1 + D / slots of a request)).
        """
        fixed = self.state * (self.padded + self.drafts)
        each = self.state * (1 + Fraction(self.drafts, self.state_slots))
        return max(int((budget - fixed) // each), 0)

    def of_rest(self, rest: int) -> tuple[int, int]:
        """(bytes of states, bytes of the token pool) of what is left for both.

        slots = floor(rest · r / (1 + r) / state), less one for padding, which is allocated too.
        """
        if not self.state:
            return 0, rest
        slots = self.fixed_states
        if slots is None:
            slots = self._slots(max(rest, 0) * self.state_ratio / (1 + self.state_ratio))
        taken = (slots + 1) * self.state
        if self.drafts:
            running = slots // self.state_slots
            running = running if self.wanted is None else min(running, self.wanted)
            taken += (running + 1) * self.state * self.drafts
        return taken, rest - taken

    def for_states(self, requests: int) -> int:
        """The token pool beside which so many requests have their states."""
        if not self.state or self.fixed_states is not None:
            return 0
        each = self.state * (self.state_slots + self.drafts)
        size = requests * each + self.state * (self.padded + self.drafts)
        return cdiv(size * self.state_ratio.denominator, self.state_ratio.numerator)

    def in_window(self, tokens: int) -> int:
        """Tokens that one request keeps in the window pool: its window and a page."""
        held = pad(tokens, self.page)
        return min(held, pad(self.window, self.page) + self.page) if self.windowed else 0

    def in_full(self, tokens: int) -> int:
        """Tokens that one request takes of the full pool, in whole pages of all dcp ranks."""
        return pad(cdiv(tokens, self.dcp), self.page)

    def request(self, tokens: int) -> int:
        """Bytes of one request in all pools."""
        kept = self.in_full(tokens) * self.full + self.in_window(tokens) * self.windowed
        return kept + (self.state_slots * self.state if self.state else 0)

    def running(self, tokens: int, context: int, states: int) -> int:
        """max_running_requests: set or estimated, half the tokens, and what the states allow."""
        most = max(min(tokens * self.dcp * _EACH // context, _MOST), _LEAST)
        most = min(most if self.wanted is None else self.wanted, tokens * self.dcp // 2)
        return min(most, states // self.state_slots) if self.state else most


_KEPT: dict[tuple[object, ...], tuple[Model, object, Pools]] = {}


def pools_of(plan: Plan, model: Model, release: Release) -> Pools:
    """The pools of one rank of a stage, kept for the models and settings in use.

    The entry holds both, so their ids stay their own; a search asks dozens of times.

    Raises:
        KvcalcError: "unknown_dtype", "unsupported_architecture".
    """
    key = (id(model), id(plan.settings), plan.storage, plan.parallel, plan.block_size, release)
    kept = _KEPT.get(key)
    if kept is None:
        if len(_KEPT) > 1024:
            _KEPT.clear()
        kept = _KEPT[key] = (model, plan.settings, _pools(plan, model, release))
    return kept[2]


def _pools(plan: Plan, model: Model, release: Release) -> Pools:
    """The pools of one rank of a stage.

    Raises:
        KvcalcError: "unknown_dtype" for a format SGLang does not store;
            "unsupported_architecture" for DeepSeek-V4's compressed caches and encoder-decoders.
    """
    kind = _format(plan)
    s = plan.settings
    windows = (plan.model.architecture or "") in _WINDOWED
    windows = windows and not s.get("disable_hybrid_swa_memory")
    full = windowed = window = state = 0
    for group in model.groups:
        count, cache = len(group.layers), group.cache
        if isinstance(cache, State):
            state += count * _state_bytes(plan, cache)
        elif windows and isinstance(cache, (SlidingWindow, Chunked)):
            windowed += count * _cell(cache, model, kind)
            window = max(window, cache.window if isinstance(cache, SlidingWindow) else cache.chunk)
        else:
            # An indexer's keys are copied to all dcp ranks, whose latents share the tokens.
            copies = plan.parallel.dcp if isinstance(cache, Indexer) else 1
            full += count * copies * _cell(cache, model, kind)
    if str(s.get("speculative_algorithm", "none")) in {"eagle", "eagle3", "nextn"}:
        # One draft layer like the target's.
        layers = sum(len(g.layers) for g in model.groups if not isinstance(g.cache, State))
        full += full // max(layers, 1)
    wanted = s.get("max_running_requests")
    fixed = s.get("max_mamba_cache_size")
    if fixed is None and s.get("disable_radix_cache") and wanted is not None:
        fixed = wanted
    tokens = s.get("max_total_tokens")
    return Pools(
        page=_page(plan), full=full, windowed=windowed, window=window,
        ratio=Fraction(str(s.get("swa_full_tokens_ratio", _SWA_RATIO))),
        state=state, state_slots=_state_slots(plan, release),
        state_ratio=Fraction(str(s.get("mamba_full_memory_ratio", _STATE_RATIO))),
        fixed_states=None if fixed is None else int(fixed), padded=release >= (0, 5, 23),
        wanted=None if wanted is None else int(wanted),
        most_tokens=None if tokens is None else int(tokens),
        dcp=plan.parallel.dcp, drafts=_drafts(plan),
    )  # fmt: skip


def _drafts(plan: Plan) -> int:
    if str(plan.settings.get("speculative_algorithm", "none")) == "none":
        return 0
    return int(plan.settings.get("speculative_num_draft_tokens", _DRAFTS))


def _page(plan: Plan) -> int:
    """page_size: 1, or 64 where sparse latent attention asks for it."""
    given = plan.settings.get("page_size", plan.block_size)
    if given is not None:
        return int(given)
    sparse = any(isinstance(g.cache, Indexer) for g in plan.model.groups)
    return 64 if sparse else 1


def _format(plan: Plan) -> Dtype:
    k, v = plan.storage.k, plan.storage.v
    if k.key != v.key or k.key not in _FORMATS:
        raise KvcalcError(
            "unknown_dtype", f"SGLang stores no {plan.storage.label} KV cache",
            f"it has: {', '.join(_FORMATS)}",
        )  # fmt: skip
    # Its 4-bit recipes have a scale for each 16 elements, whatever they are called.
    return dtype("nvfp4") if k.key == "mxfp4" else k


def _cell(cache: Cache, model: Model, kind: Dtype) -> int:
    """Bytes of a token in one layer."""
    if isinstance(cache, Full):
        return sum(
            cache.kv_heads * dim * kind.block_bytes // kind.block_elements
            for dim in (cache.key_dim, cache.value_dim)
        )
    if isinstance(cache, Latent) and cache.window is None:
        if kind.key == "fp8" and any(isinstance(g.cache, Indexer) for g in model.groups):
            return cache.rank + cache.rank // _SCALED * 4 + 2 * cache.rope_dim
        return (cache.rank + cache.rope_dim) * kind.block_bytes // kind.block_elements
    if isinstance(cache, Indexer) and cache.ratio == 1:
        # One byte an element and an fp32 scale for each 128, whatever the format.
        return cache.dim + cache.dim // _INDEX_BLOCK * 4
    if isinstance(cache, (Compressed, Cross, Latent)):
        what = "an encoder's keys" if isinstance(cache, Cross) else "compressed caches"
        raise KvcalcError(
            "unsupported_architecture", f"SGLang's pools for {what} ({model.id}) are not known",
            "take --engine vllm, or none",
        )  # fmt: skip
    return 0


def _state_bytes(plan: Plan, state: State) -> int:
    """Conv columns in bf16; the recurrent state in float32 unless config or flag say else."""
    named = plan.settings.get("mamba_ssm_dtype")
    kind = dtype(str(named)) if named else dtype(state.recurrent_dtype or "fp32")
    columns = (state.conv_kernel - 1) * state.conv_channels
    return columns * 2 + state.recurrent_elements * kind.block_bytes


def _state_slots(plan: Plan, release: Release) -> int:
    """States that a running request takes: one without prefix caching, else three to five."""
    if plan.settings.get("disable_radix_cache"):
        return 1
    strategy = str(plan.settings.get("mamba_radix_cache_strategy", "auto"))
    if strategy == "auto":
        extra = release >= (0, 5, 23) and (plan.model.architecture or "") in _EXTRA_BUFFER
        strategy = "extra_buffer" if extra else "no_buffer"
    return _SLOTS[strategy]
