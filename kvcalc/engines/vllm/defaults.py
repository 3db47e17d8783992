"""What vLLM takes where nothing is set, and what its releases charge: read in the releases.

Sources: `engine/arg_utils.py`, `config/vllm.py`, `config/cache.py`, `envs.py`, `v1/worker` of
0.10.2, 0.12.0, 0.16.0, 0.18.1, 0.20.0, 0.22.1, 0.24.0 to 0.30.0, 0.32.0 and 0.33.0; the V0 engine
of 0.6.4 to 0.7.3. A change between two of them is dated to the later one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.cache import SlidingWindow, State
from kvcalc.core.plan import Plan
from kvcalc.core.units import GIB
from kvcalc.engines.vllm.versions import NEWEST, version_of
from kvcalc.engines.vllm.widths import TOWERS

Release = tuple[int, ...]
#: Where the V2 model runner is the default before it is everybody's (0.29): all models without
#: experts and recurrent states, and by name the first release and the one it is no longer named in.
V2_FROM, V2_DENSE, V2_ALWAYS = (0, 22), (0, 25), (0, 29)
_V2_MODELS: tuple[tuple[Release, Release, frozenset[str]], ...] = (
    (V2_FROM, V2_DENSE, frozenset({"qwen3"})),
    ((0, 24), V2_DENSE, frozenset({"llama", "mistral"})),
    ((0, 24), V2_ALWAYS, frozenset({"deepseek_v2", "qwen2_moe", "granitemoe"})),
    ((0, 27), V2_ALWAYS, frozenset({"kimi_k3"})),
    ((0, 28), V2_ALWAYS, frozenset({"deepseek_v4"})),
)
#: V1 is the default from here on, and alone from 0.11.
V1_FROM, _V1_ALONE = (0, 8), (0, 11)
#: A chunk of the V0 engine's prefill, and from 0.6.5 on; contexts that it chunks by itself.
_CHUNK, _CHUNK_GREW, _CHUNK_LONGER, _CHUNKED_FROM = 512, (0, 6, 5), 2048, 32_768
#: The least that the V0 engine takes at once where prompts hold images.
_WITH_IMAGES = 5120
#: vLLM's "large" GPUs begin here; from 0.28 there are huge ones.
_LARGE, _HUGE = 70 * GIB, 160 * GIB
#: Captured at most: twice the requests, up to this; more on datacentre Blackwell in 0.33.
_CAPTURE, _CAPTURE_BLACKWELL = 512, 1024
_DATACENTRE_BLACKWELL = ("b100", "b200", "b300", "gb200", "gb300")
#: GPUs behind an NVSwitch with multicast, which NCCL keeps buffers for.
_SWITCHED = ("h100-sxm", "h200-sxm", "h20", "h800-sxm", *_DATACENTRE_BLACKWELL)


class Run(NamedTuple):
    """One start of vLLM, every default filled in."""

    release: Release
    #: "cuda", "rocm" or "xpu".
    platform: str
    utilization: Fraction
    batched_tokens: int
    max_seqs: int
    eager: bool
    #: The engine before V1, the model runner V2.
    v0: bool
    v2_runner: bool
    async_scheduling: bool
    speculative_tokens: int
    draft_layers: int
    #: Graphs captured piecewise and full; charged from 0.20 on.
    piecewise_graphs: int
    full_graphs: int
    text_only: bool

    @property
    def charges_graphs(self) -> bool:
        """Whether the estimate of CUDA graphs is subtracted from the pool.

        The V2 runner estimates nothing before 0.29 (`profile_cudagraph_memory` returns 0).
        """
        first = V2_ALWAYS if self.v2_runner else (0, 20)
        return self.release >= first and not self.eager


def run_of(plan: Plan) -> Run:
    """The settings in force: what the plan sets, else the release's defaults on this GPU."""
    release = version_of(plan.version or NEWEST)
    s = plan.settings
    v0 = is_v0(plan, release)
    speculative = int(s.get("num_speculative_tokens", 0))
    seqs = int(s.get("max_num_seqs") or default_seqs(plan, release, v0=v0))
    tokens = int(s.get("max_num_batched_tokens") or default_tokens(plan, release, seqs, v0=v0))
    if s.get("enable_chunked_prefill") is False:
        tokens = max(tokens, plan.context)
    eager = bool(s.get("enforce_eager", False))
    sizes = [] if eager else capture_sizes(plan, release, seqs * (1 + speculative), tokens)
    return Run(
        release, platform_of(plan), utilization_of(plan, release), tokens, seqs, eager, v0,
        v2_runner(plan, release), bool(s.get("async_scheduling", True)), speculative,
        int(s.get("num_draft_layers", 1 if speculative else 0)),
        len(sizes), sum(n <= seqs * (1 + speculative) for n in sizes),
        bool(s.get("language_model_only", False)),
    )  # fmt: skip


def is_v0(plan: Plan, release: Release) -> bool:
    """Whether the engine before V1 runs: `use_v1` decides while there are both."""
    return release < V1_FROM or (release < _V1_ALONE and plan.settings.get("use_v1") is False)


def platform_of(plan: Plan) -> str:
    """vLLM's platform of the GPU; CUDA where none is named."""
    return {"AMD": "rocm", "Intel": "xpu"}.get(plan.device.vendor, "cuda")


def utilization_of(plan: Plan, release: Release) -> Fraction:
    """--gpu-memory-utilization: 0.90, from 0.20.0 on 0.92."""
    if plan.utilization is not None:
        return plan.utilization
    return Fraction(92, 100) if release >= (0, 20) else Fraction(9, 10)


def is_datacentre_blackwell(plan: Plan) -> bool:
    """B100 to GB300; vLLM's device capability family 100."""
    return (plan.device.id or "").startswith(_DATACENTRE_BLACKWELL)


def is_switched(plan: Plan) -> bool:
    """Hopper or datacentre Blackwell modules behind an NVSwitch."""
    name = plan.device.id or ""
    return name.startswith(_SWITCHED) and not name.startswith("h200-nvl")


def v2_runner(plan: Plan, release: Release) -> bool:
    """Whether the model runner V2 runs the model: as asked, or by default."""
    asked = plan.settings.get("use_v2_model_runner")
    if asked is not None and release >= V2_FROM:
        return bool(asked)
    if release >= V2_ALWAYS:
        return True
    recurrent = any(isinstance(group.cache, State) for group in plan.model.groups)
    if release >= V2_DENSE and not plan.model.experts and not recurrent:
        return True
    architecture = plan.model.architecture or ""
    return any(
        first <= release < end and architecture in models for first, end, models in _V2_MODELS
    )


def _tier(plan: Plan, release: Release) -> int:
    """0 for GPUs below 70 GiB (and A100, GB10), 1 for larger ones, 2 from 160 GiB."""
    # A pool that is given is on a GPU at least as large.
    memory = plan.memory.bytes if plan.memory else plan.kv_pool or 0
    name = f"{plan.device.id or ''} {plan.device.name}".lower()
    if release >= (0, 28) and memory >= _HUGE:
        return 2
    small = "a100" in name and release >= (0, 9)
    small |= "gb10" in name and release >= (0, 33)
    return int(memory >= _LARGE and not small)


def default_seqs(plan: Plan, release: Release, *, v0: bool) -> int:
    """max_num_seqs: 256, on large GPUs 1,024 (`vllm serve`)."""
    return 256 if v0 or not _tier(plan, release) else 1024


def default_tokens(plan: Plan, release: Release, seqs: int, *, v0: bool) -> int:
    """max_num_batched_tokens of `vllm serve`: 2,048, on large GPUs 8,192, on huge ones 16,384.

    The V0 engine takes whole prompts, its context, at least 2,048; or chunks (`chunks_prompts`).
    """
    if v0:
        if chunks_prompts(plan):
            return _CHUNK if release < _CHUNK_GREW else _CHUNK_LONGER
        return max(plan.context, _WITH_IMAGES if _sees_images(plan) else 2048)
    tokens = (2048, 8192, 16_384)[_tier(plan, release)]
    return min(tokens, seqs * plan.context)


def chunks_prompts(plan: Plan) -> bool:
    """Whether the V0 engine prefills in chunks: by itself beyond 32,768 tokens of context.

    Not so with one sliding window for all layers, images, adapters or drafts.
    """
    s = plan.settings
    given = s.get("enable_chunked_prefill")
    if given is not None:
        return bool(given)
    windowed = all(isinstance(group.cache, SlidingWindow) for group in plan.model.groups)
    other = windowed or s.get("max_loras") or s.get("num_speculative_tokens")
    return plan.context > _CHUNKED_FROM and not other and not _sees_images(plan)


def _sees_images(plan: Plan) -> bool:
    return (plan.model.architecture or "") in TOWERS


def capture_sizes(plan: Plan, release: Release, decode_tokens: int, tokens: int) -> list[int]:
    """Batches captured as CUDA graphs: 1, 2, 4, 8 to 248 by 8, from 256 on by 16.

    Up to twice the decoded tokens of all requests, 512 (1,024 on datacentre Blackwell), the batch.
    """
    given = plan.settings.get("cudagraph_capture_sizes")
    if given:
        return sorted({int(n) for n in str(given).split(",") if int(n) <= tokens})
    wide = release >= (0, 33) and is_datacentre_blackwell(plan)
    most = _CAPTURE_BLACKWELL if wide else _CAPTURE
    limit = int(plan.settings.get("max_cudagraph_capture_size", min(2 * decode_tokens, most)))
    limit = min(limit, tokens)
    steps = [1, 2, 4, *range(8, 256, 8), *range(256, limit + 1, 16)]
    return [n for n in steps if n <= limit]
