"""The command that starts vLLM for a plan, and single changes of its settings that may help."""

from __future__ import annotations

from typing import Any

from kvcalc.core.dtypes import storage
from kvcalc.core.plan import Change, Plan
from kvcalc.engines.vllm.defaults import V2_FROM, Run

#: Formats of the KV cache as `--kv-cache-dtype` spells them.
_SPELLED = {"bf16": "bfloat16", "fp16": "float16"}
#: Settings that are not flags of the same name.
_NOT_FLAGS = frozenset({
    "use_v1", "use_v2_model_runner", "num_speculative_tokens", "num_draft_layers",
})  # fmt: skip
#: GPUs that compute fp8.
_FP8 = frozenset({"Ada", "Hopper", "Blackwell", "Blackwell Ultra", "CDNA3", "CDNA4", "RDNA4"})
_FEWER_REQUESTS, _SMALLER_STEP, _MORE = 64, 2048, "0.95"


def command_of(plan: Plan, run: Run) -> str:
    """`vllm serve …`; before 0.6 the API server's module."""
    p, words = plan.parallel, []
    words += ["vllm serve", checkpoint(plan)]
    if run.release < (0, 6):
        words = ["python -m vllm.entrypoints.openai.api_server --model", checkpoint(plan)]
    words.append(f"--max-model-len {plan.context}")
    sizes = (("tensor", p.tp), ("pipeline", p.pp), ("data", p.dp))
    words += [f"--{name}-parallel-size {size}" for name, size in sizes if size > 1]
    if p.dcp > 1:
        words.append(f"--decode-context-parallel-size {p.dcp}")
    if p.ep > 1:
        words.append("--enable-expert-parallel")
    if plan.settings.get("kv_cache_memory_bytes") is None:
        words.append(f"--gpu-memory-utilization {float(run.utilization):g}")
    key = plan.storage.k.key
    if key not in {"bf16", "fp16"}:
        words.append(f"--kv-cache-dtype {_SPELLED.get(key, key)}")
    if plan.block_size is not None:
        words.append(f"--block-size {plan.block_size}")
    if run.release < (0, 11) and "use_v1" in plan.settings:
        words.insert(0, f"VLLM_USE_V1={int(bool(plan.settings['use_v1']))}")
    runner = plan.settings.get("use_v2_model_runner")
    if runner is not None and run.release >= V2_FROM:
        words.insert(0, f"VLLM_USE_V2_MODEL_RUNNER={int(bool(runner))}")
    if p.pp_layers:
        words.insert(0, f"VLLM_PP_LAYER_PARTITION={','.join(map(str, p.pp_layers))}")
    words += [_flag(name, value) for name, value in plan.settings.items() if name not in _NOT_FLAGS]
    words += _speculation(run)
    return " ".join(words)


def checkpoint(plan: Plan) -> str:
    """The model's name on the hub; a placeholder for weights of another format than it stores."""
    stored = plan.model.weights.dtype if plan.model.weights else plan.model.dtype
    form = plan.weights.format
    if form is not None and form != stored:
        return f"{form.upper()}_CHECKPOINT"
    return plan.model.hub[0] if plan.model.hub else plan.model.id


def _flag(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if value is True:
        return f"--{flag}"
    if value is False:
        return f"--no-{flag}"
    if name == "cudagraph_capture_sizes":
        return f"--{flag} {str(value).replace(',', ' ')}"
    return f"--{'enable-lora --' if name == 'max_loras' else ''}{flag} {value}"


def _speculation(run: Run) -> list[str]:
    if not run.speculative_tokens:
        return []
    config = f'{{"method": "mtp", "num_speculative_tokens": {run.speculative_tokens}}}'
    return [f"--speculative-config '{config}'"]


def changes_of(plan: Plan, run: Run) -> list[Change]:
    """Changes of one setting each; whether they help is for the asker to compute."""
    found = []
    if plan.kv_pool is None and plan.kv_pool_tokens is None:
        if run.charges_graphs:
            found.append(_setting(plan, "enforce_eager", value=True))
        fewer = max(_FEWER_REQUESTS, plan.requests)
        if run.max_seqs > fewer:
            found.append(_setting(plan, "max_num_seqs", value=fewer))
        if run.batched_tokens > _SMALLER_STEP and not run.v0:
            found.append(_setting(plan, "max_num_batched_tokens", value=_SMALLER_STEP))
        if plan.utilization is None and run.utilization < 1:
            more = plan._replace(utilization=type(run.utilization)(_MORE))
            found.append(Change("utilization", f"--utilization {_MORE}", more))
    if plan.storage.k.key in {"bf16", "fp16"}:
        name = "fp8" if plan.device.architecture in _FP8 else "int8_per_token_head"
        smaller = storage(name, model=plan.storage.model.key)
        found.append(Change("kv_dtype", f"--kv-dtype {name}", plan._replace(storage=smaller)))
    return found


def _setting(plan: Plan, name: str, *, value: bool | int) -> Change:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    settings = {**plan.settings, name: value}
    return Change("setting", f"--set {name}={text}", plan._replace(settings=settings))
