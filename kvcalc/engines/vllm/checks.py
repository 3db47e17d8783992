"""What vLLM refuses whatever the memory, and what bounds an answer beside it.

Sources: vLLM 0.33 `config/model.py` (verify_with_parallel_config), `v1/attention/backends`
(capabilities), `config/cache.py` (formats), `v1/worker/gpu_model_runner.py` (state blocks).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvcalc.core.cache import Full
from kvcalc.core.dtypes import Dtype
from kvcalc.core.errors import KvcalcError
from kvcalc.core.plan import LONGEST, Plan, RankPlan
from kvcalc.core.results.fit import Limit
from kvcalc.engines.vllm.defaults import V1_FROM, Run
from kvcalc.engines.vllm.layout import Layout
from kvcalc.engines.vllm.versions import NEWEST, version_of

#: Vendors whose devices vLLM reaches by plugins with budgets of their own.
_PLUGINS = frozenset({"Apple", "Google", "AWS", "Amazon"})
_PLUGIN_ARCHITECTURES = frozenset({"Gaudi", "TPU", "Neuron", "Apple"})
#: No backend of vLLM reads fp8 caches here: FlashInfer begins at Ampere, Triton at Ada.
_NO_FP8 = frozenset({"Volta", "Turing"})
#: Text-to-text encoder–decoders: vLLM has no implementation of them.
_NOT_SERVED = frozenset({"t5", "mt5", "umt5"})
_FORMATS = (
    "bf16", "fp16", "fp8", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head",
    "int4_per_token_head", "nvfp4", "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
)  # fmt: skip


def check(plan: Plan) -> None:
    """Refuse what vLLM refuses.

    Raises:
        KvcalcError: "unsupported_architecture"; "not_divisible" for heads; "unknown_dtype" for a
            format it lacks or this GPU cannot read; "usage" for parallelism it does not do and
            devices without a budget.
    """
    if plan.model.architecture in _NOT_SERVED:
        raise KvcalcError(
            "unsupported_architecture",
            f"vLLM serves no {plan.model.architecture} models",
            "--engine transformers, or --engine none for the textbook",
        )
    _parallelism(plan)
    _formats(plan, plan.storage.k, plan.storage.v)
    known = plan.kv_pool is not None or plan.kv_pool_tokens is not None
    if plan.settings.get("use_v1") and version_of(plan.version or NEWEST) < V1_FROM and not known:
        raise KvcalcError(
            "usage", f"the V1 engine of vLLM {plan.version} was a trial; what it kept is not known",
            "give the pool it printed as --kv-pool, or leave use_v1 out",
        )  # fmt: skip
    device = plan.device
    plugin = device.vendor in _PLUGINS or device.architecture in _PLUGIN_ARCHITECTURES
    if plugin and not known:
        raise KvcalcError(
            "usage", f"what vLLM's plugin keeps on {device.name or device.id} is not known",
            "give the pool it prints as --kv-pool, or take --engine none",
        )  # fmt: skip


def _parallelism(plan: Plan) -> None:
    model, p = plan.model, plan.parallel
    heads = model.query_heads
    if heads and heads % p.tp:
        splits = [n for n in range(1, heads + 1) if heads % n == 0 and n <= 64]
        raise KvcalcError(
            "not_divisible", f"vLLM: --tp {p.tp} does not divide the {heads} attention heads",
            f"{', '.join(map(str, splits))} do",
        )  # fmt: skip
    if p.ep > 1 and (not model.experts or p.ep != p.tp * p.dp):
        why = "the model has no experts" if not model.experts else "its size is tp × dp"
        raise KvcalcError(
            "usage", f"vLLM: --ep {p.ep}: {why}", f"leave --ep out, or give {p.tp * p.dp}"
        )
    caches = [g.cache for g in model.groups if isinstance(g.cache, Full)]
    if p.dcp > 1 and caches:
        kv_heads = caches[0].kv_heads
        if p.tp % p.dcp or p.dcp > p.tp // kv_heads:
            raise KvcalcError(
                "usage",
                f"vLLM: --dcp {p.dcp} needs --tp to be a multiple of dcp × {kv_heads} KV heads",
                f"--tp {p.dcp * kv_heads}, or leave --dcp out",
            )  # fmt: skip


def _formats(plan: Plan, k: Dtype, v: Dtype) -> None:
    if k.key not in _FORMATS or v.key not in _FORMATS:
        name = (k if k.key not in _FORMATS else v).key
        raise KvcalcError(
            "unknown_dtype", f"vLLM has no {name} KV cache", f"it has: {', '.join(_FORMATS)}"
        )
    if k.key != v.key:
        raise KvcalcError(
            "usage", f"vLLM stores K and V in one format, not {k.key} and {v.key}", "--kv-dtype"
        )
    if k.key.startswith("fp8") and plan.device.architecture in _NO_FP8:
        raise KvcalcError(
            "unknown_dtype",
            f"vLLM reads no fp8 KV cache on {plan.device.architecture} "
            f"({plan.device.name or plan.device.id})",
            "--kv-dtype int8_per_token_head, or a GPU from Ampere on",
        )


def limits_of(
    plan: Plan, run: Run, layout: Layout, ranks: Sequence[RankPlan], most: int
) -> tuple[Limit, ...]:
    """Bounds beside memory; `most` are the requests of one replica that the pool holds."""
    found = []
    if run.max_seqs < most < LONGEST:
        found.append(Limit(
            "max_num_seqs",
            f"vLLM runs at most {run.max_seqs:,} requests at once in each replica; "
            f"--set max_num_seqs={most} would use the pool",
        ))  # fmt: skip
    if layout.state_layers and not run.v0:
        rank = min(ranks, key=lambda r: r.pool.best // (layout.blocks[r.stage] or 1))
        blocks = max(rank.pool.best, 0) // (layout.blocks[rank.stage] or 1)
        if run.max_seqs > blocks > 0 and not run.eager:
            found.append(Limit(
                "state_blocks",
                f"max_num_seqs ({run.max_seqs}) exceeds the {blocks} blocks that can hold states: "
                f"vLLM captures no full graphs so; --set max_num_seqs={blocks} at most",
            ))  # fmt: skip
    if plan.device.architecture in _NO_FP8 and plan.storage.model.key == "bf16":
        found.append(Limit(
            "dtype", f"{plan.device.architecture} has no bf16: vLLM runs the model in fp16"
        ))  # fmt: skip
    return tuple(found)
