"""vLLM's planning of its KV pool: bytes → groups → blocks → tokens and concurrency.

Source: vLLM 0.33 `v1/core/kv_cache_planning.py` and `kv_cache_utils.py`; older releases by
`versions`. All figures are of one rank, whole bytes and whole tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.shard import pp_split
from kvcalc.core.units import GIB, cdiv
from kvcalc.engines.vllm.groups import LAYOUTS, Group, block_bytes, groups_of
from kvcalc.engines.vllm.merge import PlanError
from kvcalc.engines.vllm.specs import Load, Spec, spec_of
from kvcalc.engines.vllm.versions import Rules, rules_of

_MORE = (
    "Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) "
    "or decreasing `max_model_len` when initializing the engine. "
    "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group of layers as planned."""

    n_layers: int
    spec_type: str
    block_size: int
    page_size_bytes: int
    blocks_per_request: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What vLLM makes of a pool.

    `error` is vLLM's refusal, or None. After a refusal for lack of memory the figures are those
    at `final_max_model_len`, the longest length that would start; without one they are None.
    """

    groups: tuple[GroupPlan, ...] = ()
    num_blocks: int | None = None
    bytes_per_block: int | None = None
    tensor_bytes: int | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    final_max_model_len: int | None = None
    blocks_per_request: int | None = None
    #: Bytes that one request of the wanted length needs, null block left out.
    needed_bytes: int | None = None
    error: str | None = None

    @property
    def tokens(self) -> int | None:
        """The engine's "GPU KV cache size"."""
        return self.kv_cache_size_tokens

    @property
    def fits(self) -> bool:
        """Whether the engine starts."""
        return self.error is None


def plan(
    layers: Sequence[object],
    available_bytes: int | Sequence[int],
    *,
    max_model_len: int,
    max_in_flight_tokens: int,
    layout: str = "LBNHC",
    mamba_cache_mode: str = "none",
    disable_hybrid: bool = False,
    dcp: int = 1,
    max_num_encoder_input_tokens: int | None = None,
    auto_fit: bool = False,
    version: str | None = None,
) -> Plan:
    """Plan vLLM's KV pool of one rank (or of each pipeline stage).

    Args:
        layers: One entry a layer: a `Spec`, a spec in its dict form (see `specs.spec_of`), or
            `{"spec": …, "repeat": n}`. With several stages a list of such lists, or one list
            that is cut as vLLM cuts it.
        available_bytes: Bytes for the cache, or one figure a pipeline stage.
        max_model_len: Tokens that one request may reach.
        max_in_flight_tokens: max_num_batched_tokens × concurrent batches (2 with asynchronous
            scheduling, the default; pipeline stages + 1 with several).
        layout: Physical order of the cache; "B…" packs pages of several sizes.
        mamba_cache_mode: "none", or "align" when prefix caching keeps states.
        disable_hybrid: Allocate sliding and chunked layers as full attention.
        dcp: Decode-context ranks; full caches hold 1 / dcp of the tokens.
        max_num_encoder_input_tokens: Encoder tokens of a request; default max_num_batched_tokens,
            taken as half of `max_in_flight_tokens`.
        auto_fit: Shorten max_model_len until it fits instead of refusing (`--max-model-len -1`).
        version: vLLM's release; default the newest known.

    Raises:
        KvcalcError: "usage" for layers, layout or lengths that are none; "not_divisible".
    """
    memory = [available_bytes] if isinstance(available_bytes, int) else list(available_bytes)
    if layout not in LAYOUTS:
        raise KvcalcError("usage", f"no KV cache layout {layout}", f"known: {', '.join(LAYOUTS)}")
    if max_model_len < 1 or dcp < 1 or not memory:
        raise KvcalcError("usage", "max_model_len, dcp and the ranks must be at least 1")
    stages = _stages(layers, len(memory))
    rules = rules_of(version)
    encoder = max_num_encoder_input_tokens
    load = Load(
        max_model_len,
        max_in_flight_tokens,
        mamba_cache_mode,
        dcp,
        max_in_flight_tokens // 2 if encoder is None else encoder,
    )
    try:
        return _plan(stages, memory, load, rules, layout, disable_hybrid, auto_fit)
    except PlanError as refusal:
        return Plan(error=str(refusal))


def _plan(
    stages: list[list[Spec]],
    memory: list[int],
    load: Load,
    rules: Rules,
    layout: str,
    disable_hybrid: bool,
    auto_fit: bool,
) -> Plan:
    specs = [spec for stage in stages for spec in stage]
    if load.dcp > 1 and any(s.is_window and s.dcp_sharded for s in specs):
        raise PlanError("AssertionError: DCP not support sliding window.")
    groups = groups_of(specs, layout=layout, disable_hybrid=disable_hybrid, rules=rules)
    if not groups:
        return Plan(num_blocks=1, final_max_model_len=load.max_model_len)
    ranks, start = [], 0
    for stage in stages:
        ranks.append([g.only(range(start, start + len(stage))) for g in groups])
        start += len(stage)
    block = [block_bytes(rank, layout) for rank in ranks]
    usable = [m - b * rules.null_block for m, b in zip(memory, block, strict=True)]
    sized = [_Rank(*each, rules) for each in zip(ranks, block, usable, strict=True)]
    if rules.whole_model_check:
        sized = [_Rank(groups, block_bytes(groups, layout), min(memory), rules)]
    needed = max(rank.needed(load) for rank in sized)
    longest = min(rank.longest(load) for rank in sized)
    error = None if auto_fit else _refusal(sized, load)
    if longest <= 0:
        return Plan(error=error or _CANNOT_FIT, needed_bytes=needed)
    blocks = min(m // b for m, b in zip(memory, block, strict=True))
    load = load._replace(max_model_len=longest)
    return _result(groups, blocks, block[0], load, rules, error, needed)


_CANNOT_FIT = (
    "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even a "
    "single token. Try increasing `gpu_memory_utilization`."
)


def _result(
    groups: list[Group],
    blocks: int,
    block: int,
    load: Load,
    rules: Rules,
    error: str | None,
    needed: int,
) -> Plan:
    per_request = sum(g.blocks(load) for g in groups)
    if groups[0].least_bytes:
        # Before 0.29 the bytes of all groups over a block of the first.
        total = sum(g.blocks(load) * g.page_bytes for g in groups)
        per_request = cdiv(total, groups[0].page_bytes)
    # In floating point, as vLLM computes it: int() then cuts what rounding leaves.
    concurrency = blocks / per_request if per_request else None
    tokens = int(concurrency * load.max_model_len) if concurrency is not None else None
    if rules.tokens_by_blocks and concurrency is not None:
        size = min(g.block_size for g in groups)
        tokens = blocks // len(groups) * size * load.dcp
    return Plan(
        groups=tuple(
            GroupPlan(len(g.layers), g.spec_type, g.block_size, g.page_bytes, g.blocks(load))
            for g in groups
        ),
        num_blocks=blocks,
        bytes_per_block=block,
        tensor_bytes=blocks * block,
        kv_cache_size_tokens=tokens,
        max_concurrency=concurrency,
        final_max_model_len=load.max_model_len,
        blocks_per_request=per_request,
        needed_bytes=needed,
        error=error,
    )


class _Rank(NamedTuple):
    """One pipeline stage: its groups, the bytes of its block and those a request may use."""

    groups: list[Group]
    block: int
    usable: int
    rules: Rules

    def needed(self, load: Load) -> int:
        """Bytes that one request of max_model_len is counted with."""
        if self.rules.needs == "layers":
            return sum(s.page_bytes * s.blocks(load) for g in self.groups for s in g.specs)
        counted = self.groups[:1] if self.rules.needs == "first_group" else self.groups
        block = self.block
        if self.groups[0].least_bytes:
            from kvcalc.engines.vllm.packed import tuple_need  # noqa: PLC0415 - DeepSeek-V4 only

            block = tuple_need(self.groups)
        return block * sum(g.blocks(load) for g in counted)

    def longest(self, load: Load) -> int:
        """The longest max_model_len whose request fits; 0 if not even one token does."""
        low, high = 0, load.max_model_len
        while low < high:
            middle = (low + high + 1) // 2
            if self.needed(load._replace(max_model_len=middle)) <= self.usable:
                low = middle
            else:
                high = middle - 1
        return low


def _refusal(ranks: list[_Rank], load: Load) -> str | None:
    """What vLLM says of the first rank that cannot hold one request, or None."""
    for rank in ranks:
        if rank.usable <= 0:
            return (
                "ValueError: No available memory for the cache blocks. Try increasing "
                "`gpu_memory_utilization` when initializing the engine (this flag also controls "
                "CPU memory reservation on the CPU backend, despite its name). "
                "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ "
                "for more details."
            )
        needed = rank.needed(load)
        if needed > rank.usable:
            longest = rank.longest(load)
            estimate = (
                f"Based on the available memory, the estimated maximum model length is {longest}. "
                if longest
                else ""
            )
            return (
                "ValueError: To serve at least one request with the model's max seq len "
                f"({load.max_model_len}), ({_gib(needed)} GiB KV cache is needed, which is larger "
                f"than the available KV cache memory ({_gib(rank.usable)} GiB). {estimate}{_MORE}"
            )
    return None


def _gib(value: int) -> str:
    return str(round(value / GIB, 2))


def _stages(layers: Sequence[object], ranks: int) -> list[list[Spec]]:
    """Specs by pipeline stage."""
    nested = [entry for entry in layers if isinstance(entry, (list, tuple))]
    if nested and len(nested) == len(layers) == ranks:
        return [_specs(stage) for stage in nested]
    specs = _specs(layers)
    if ranks == 1:
        return [specs]
    cut, start = [], 0
    for count in pp_split(len(specs), ranks):
        cut.append(specs[start : start + count])
        start += count
    return cut


def _specs(layers: Sequence[object]) -> list[Spec]:
    specs: list[Spec] = []
    for entry in layers:
        if isinstance(entry, Spec):
            specs.append(entry)
        elif isinstance(entry, Mapping) and isinstance(entry.get("spec"), Mapping):
            repeat = entry.get("repeat", 1)
            if not isinstance(repeat, int) or not 1 <= repeat <= 10**5:
                raise KvcalcError("usage", "layer spec: repeat must be 1 to 100,000")
            specs += [spec_of(entry["spec"])] * repeat
        elif isinstance(entry, Mapping):
            specs.append(spec_of(entry))
        else:
            raise KvcalcError(
                "usage", "a layer must be a spec: {type, block_size, page_size_bytes, …}"
            )
    return specs
