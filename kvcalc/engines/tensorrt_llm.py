"""TensorRT-LLM: nine tenths of what a dummy run leaves, in blocks of 32 tokens.

    pool = free_gpu_memory_fraction · (total − weights − what the dummy run keeps)

Unlike vLLM's, the share is of what is *left*. Sources: TensorRT-LLM `_torch/pyexecutor/_util.py`
(KvCacheCreator) and its documentation of KV cache memory; the coefficients are fitted on the 34
capacities that aiconfigurator publishes for H100 and GB300.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvcalc.core.cache import Compressed, Indexer
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import Change, Plan, RankPlan
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.textbook import exact, with_pool
from kvcalc.core.units import GIB, MIB
from kvcalc.engines.paging import Paged, charge, left, loaded, memory_lines, release_of, states_of

NEWEST = "1.3.0rc7"
_FORMATS = ("bf16", "fp16", "fp8", "nvfp4")
#: Blocks of this many tokens before 1.0, and since; sparse latent attention takes 64.
_OLD_BLOCK, _BLOCK, _SPARSE_BLOCK = 64, 32, 64
_BATCH, _STEP, _FRACTION = 2048, 8192, "0.9"
#: Hidden sizes above this count as wide in the fit.
_WIDE = 4096
#: Hidden sizes that were measured.
_SEEN = range(4096, 5121)


class TensorRtLlm(Paged):
    """Rules of the PyTorch backend; the C++ runtime before it shares the pool's rule."""

    engine = "TensorRT-LLM"

    def info(self, plan: Plan) -> EngineInfo:
        """The release and the settings in force."""
        settings = {
            "free_gpu_memory_fraction": float(_fraction(plan)),
            "tokens_per_block": self.page(plan),
            "max_batch_size": self.slots(plan),
            "max_num_tokens": _step(plan),
            "max_seq_len": plan.context,
        }
        return EngineInfo("tensorrt-llm", plan.version or NEWEST, {**settings, **plan.settings})

    def page(self, plan: Plan) -> int:
        """tokens_per_block: 32, 64 before 1.0 and for sparse latent attention."""
        given = plan.settings.get("tokens_per_block", plan.block_size)
        if given is not None:
            return int(given)
        if any(isinstance(g.cache, Indexer) for g in plan.model.groups):
            return _SPARSE_BLOCK
        old = release_of(plan.version or NEWEST, "tensorrt-llm") < (1,)
        return _OLD_BLOCK if old else _BLOCK

    def slots(self, plan: Plan) -> int:
        """max_batch_size."""
        return int(plan.settings.get("max_batch_size", _BATCH))

    def caches_prefixes(self, plan: Plan) -> bool:
        """Unless told otherwise (`kv_cache_config.enable_block_reuse`)."""
        return bool(plan.settings.get("enable_block_reuse", True))

    def lines(self, plan: Plan, model: Model, stage: int) -> tuple[BudgetLine, ...]:
        """Memory − weights − dummy run, and a tenth of the rest.

        Raises:
            KvcalcError: "unknown_dtype" for a format it does not store; "usage" for dcp and other
                vendors' GPUs; "unsupported_architecture".
        """
        _check(plan)
        given = self.given(plan, model)
        if given:
            return given
        lines = memory_lines(plan)
        shared = bool(plan.settings.get("enable_attention_dp"))
        weights = loaded(plan, stage, experts_over_dp=shared)
        if weights is not None:
            lines.append(weights)
        lines.append(_dummy_run(plan))
        states = sum(s.fixed_bytes(plan.storage) for s in states_of(model)) * self.slots(plan)
        if states:
            lines.append(charge("states", (states, states, states), f"{self.slots(plan):,} of them",
                                "exact"))  # fmt: skip
        share, rest = _fraction(plan), max(left(lines).best, 0)
        note = f"1 − free_gpu_memory_fraction {float(share):g}"
        lines.append(exact("unused", int(rest * share) - rest, note))
        limit = plan.settings.get("max_tokens")
        if limit is not None:
            lines.append(_above(lines, int(limit) * self.token_bytes(plan, model)))
        return with_pool(lines)

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:
        """The lines of the C++ cache manager, for the tightest rank."""
        rank = min(ranks, key=lambda r: self.rank_tokens(plan, r) or 0)
        tokens, page = self.rank_tokens(plan, rank) or 0, self.page(plan)
        size = tokens * self.token_bytes(plan, rank.model)
        head, blocks = "[TensorRT-LLM][INFO]", tokens // page
        lines = []
        weights = next((-line.bytes for line in rank.budget if line.item == "weights"), None)
        if weights is not None and release_of(plan.version or NEWEST, "tensorrt-llm") < (1,):
            lines.append(f"{head} Loaded engine size: {weights // MIB} MiB")
        if tokens < self.pages(plan, plan.context) * page:
            lines.append(_refusal(self.pages(plan, plan.context), page, tokens))
        capacity = (
            f"{head} Max KV cache blocks per sequence: {self.pages(plan, plan.context)} "
            f"[window size={plan.context}], tokens per block={page}, primary blocks={blocks}, "
            "secondary blocks=0"
        )
        taken = f"Allocated {size / GIB:.2f} GiB for max tokens in paged KV cache ({tokens})."
        return (*lines, capacity, f"{head} [MemUsageChange] {taken}")

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:
        """max_batch_size, and windows that keep every token."""
        found = self.slot_limit(plan, ranks, "max_batch_size")
        if plan.model.bends:
            found += (Limit(
                "full_windows",
                "window layers are counted as full ones: max_attention_window is not set",
            ),)  # fmt: skip
        return found

    def command(self, plan: Plan) -> str | None:
        """`trtllm-serve …`."""
        from kvcalc.engines.vllm.command import checkpoint  # noqa: PLC0415 - lists ask for none

        p = plan.parallel
        words = ["trtllm-serve", checkpoint(plan), f"--max_seq_len {plan.context}"]
        words += [
            f"--{name} {size}"
            for name, size in (("tp_size", p.tp), ("pp_size", p.pp), ("ep_size", p.ep))
            if size > 1
        ]
        words.append(f"--kv_cache_free_gpu_memory_fraction {float(_fraction(plan)):g}")
        names = ("max_batch_size", "max_num_tokens")
        words += [f"--{n} {plan.settings[n]}" for n in names if n in plan.settings]
        if plan.storage.k.key not in {"bf16", "fp16"}:
            words.append(f"--kv_cache_dtype {plan.storage.k.key}")
        return " ".join(words)

    def changes(self, plan: Plan) -> list[Change]:
        """A larger share, a smaller step, fp8."""
        found = []
        if plan.kv_pool is None and plan.kv_pool_tokens is None:
            more = "0.95"
            if _fraction(plan) < Fraction(more):
                found.append(_setting(plan, "free_gpu_memory_fraction", float(more)))
            if _step(plan) > 2048:
                found.append(_setting(plan, "max_num_tokens", 2048))
        able = not plan.device.dtypes or "fp8" in plan.device.dtypes
        if plan.storage.k.key in {"bf16", "fp16"} and able:
            smaller = storage("fp8", model=plan.storage.model.key)
            found.append(Change("kv_dtype", "--kv-dtype fp8", plan._replace(storage=smaller)))
        return found


def _setting(plan: Plan, name: str, value: float) -> Change:
    changed = plan._replace(settings={**plan.settings, name: value})
    return Change("setting", f"--set {name}={value}", changed)


def _fraction(plan: Plan) -> Fraction:
    given = plan.settings.get("free_gpu_memory_fraction")
    if given is not None:
        return Fraction(str(given))
    return Fraction(_FRACTION) if plan.utilization is None else plan.utilization


def _step(plan: Plan) -> int:
    return int(plan.settings.get("max_num_tokens", _STEP))


def _dummy_run(plan: Plan) -> BudgetLine:
    """Runtime, communication and activations of a step of `max_num_tokens`.

    base + tp + size + step: what 34 capacities of two models on two GPUs fit.
    """
    from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415 - a given pool needs none

    c, p = coefficients("tensorrt-llm"), plan.parallel
    hidden = plan.model.hidden_size or _WIDE
    wide = hidden > _WIDE
    parts = [c["base"].bytes()]
    parts += [c["communication"].bytes()] * (p.tp > 1) + [c["communication_4"].bytes()] * (p.tp > 3)
    if plan.device.architecture.startswith("Blackwell"):
        parts.append(c["blackwell"].bytes())
    if wide:
        parts.append(c["wide"].bytes())
    parts.append(c["step"].bytes((_step(plan) / 4096 - 1) * (2 if wide else 1)))
    best = max(sum(part[0] for part in parts), 0)
    # What was fitted is two widths on two GPUs: beside them the line is as wide as it is unknown.
    seen = plan.device.architecture in {"Hopper", "Blackwell Ultra"} and hidden in _SEEN
    span = c["spread" if seen else "spread_elsewhere"]
    low = max(best - round(-span.low * GIB), 0)
    return charge("other", (best, low, best + round(span.high * GIB)),
                  f"runtime, a step of {_step(plan):,} tokens")  # fmt: skip


def _above(lines: Sequence[BudgetLine], most: int) -> BudgetLine:
    """What max_tokens leaves of the rest."""
    best, low, high = (max(n - most, 0) for n in left(lines))
    return BudgetLine("unused_tokens", -best, "exact", -low, -high, "max_tokens")


def _check(plan: Plan) -> None:
    for kind in (plan.storage.k, plan.storage.v):
        if kind.key not in _FORMATS or plan.storage.k.key != plan.storage.v.key:
            raise KvcalcError(
                "unknown_dtype", f"TensorRT-LLM stores no {plan.storage.label} KV cache",
                f"it has: {', '.join(_FORMATS)}",
            )  # fmt: skip
    device = plan.device
    if plan.storage.k.key in {"fp8", "nvfp4"} and device.dtypes and "fp8" not in device.dtypes:
        raise KvcalcError(
            "unknown_dtype",
            f"TensorRT-LLM reads no {plan.storage.k.key} KV cache on {device.name or device.id}",
            "--kv-dtype auto, or a GPU that computes fp8",
        )
    if plan.parallel.dcp > 1:
        raise KvcalcError("usage", "TensorRT-LLM has no --dcp", "leave it out")
    if plan.device.vendor not in {"", "NVIDIA"}:
        raise KvcalcError(
            "usage", f"TensorRT-LLM runs on NVIDIA GPUs, not on {plan.device.name}",
            "take --engine vllm or llama.cpp",
        )  # fmt: skip
    if any(type(g.cache) is Compressed for g in plan.model.groups):
        raise KvcalcError(
            "unsupported_architecture",
            f"TensorRT-LLM's pools for {plan.model.id}'s compressed caches are not known",
            "take --engine vllm",
        )


def _refusal(pages: int, page: int, tokens: int) -> str:
    return (
        f"maxTokensInPagedKvCache ({tokens}) must be large enough to process at least 1 sequence "
        f"to completion (i.e. must be larger than beam_width (1) * tokensPerBlock ({page}) * "
        f"maxBlocksPerSeq ({pages}))"
    )


TENSORRT_LLM = TensorRtLlm()
