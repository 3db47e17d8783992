"""vLLM's wordings, 0.1 to 0.33, and those of its forks for other devices.

GB in its weight lines is GiB. Figures are of one rank; tokens and concurrency of one engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kvcalc.logs.pairs import pairs
from kvcalc.logs.wording import Family, Match, Sink, Wording, number

_N, _G = r"([0-9]+(?:,[0-9]{3})*)", r"(-?[0-9.]+)"
#: Between the sentences of one line, which some print as lines of their own.
_GAP = r" ?(?:INFO:? +)?"

#: Names in the engine's config dump and in the server's arguments → the setting as users type it.
SETTINGS = {
    **{name: name for name in (
        "dtype", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
        "decode_context_parallel_size", "enable_expert_parallel", "quantization", "enforce_eager",
        "kv_cache_dtype", "enable_prefix_caching", "enable_chunked_prefill", "max_model_len",
        "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "block_size",
        "kv_cache_memory_bytes", "swap_space", "cpu_offload_gb", "num_gpu_blocks_override",
        "disable_hybrid_kv_cache_manager", "mamba_cache_dtype", "mamba_ssm_cache_dtype",
        "mamba_block_size", "mamba_cache_mode", "speculative_config", "async_scheduling",
        "language_model_only", "max_loras", "max_lora_rank", "enable_lora", "load_format",
    )},
    "max_seq_len": "max_model_len",
    "chunked_prefill_enabled": "enable_chunked_prefill",
}  # fmt: skip


def _config(m: Match, sink: Sink) -> None:
    """The engine's config: `Initializing a V1 LLM engine (v0.12.0) with config: model='…', …`."""
    generation = m[1]
    if generation:
        sink.marks.add(generation.strip())
    if m[2] and m[2][0].isdigit():
        sink.version = m[2]
    _arguments(m[3], sink, model="model")


def _arguments(text: str, sink: Sink, *, model: str) -> None:
    found = pairs(text, {**SETTINGS, model: "model", "model": "model"})
    name = found.pop("model", None)
    if isinstance(name, str):
        sink.model = name
    for key, value in found.items():
        # "auto" and -1 are wishes; what the engine made of them stands in its config.
        if key == "max_model_len" and (not isinstance(value, int) or value < 1):
            continue
        sink.settings[key] = value


def _non_default(m: Match, sink: Sink) -> None:
    _arguments(m[1], sink, model="model_tag")


def _profile(m: Match, sink: Sink) -> None:
    """0.6.4: the profile as name=N GiB; the peak of torch holds weights and activation."""
    items = {
        "total_gpu_memory": "memory", "initial_memory_usage": "used_at_start",
        "peak_torch_memory": "torch_peak", "memory_usage_post_profile": "used_after_profile",
        "non_torch_memory": "non_torch", "kv_cache_size": "kv_pool",
    }  # fmt: skip
    for name, digits in re.findall(r"([a-z_]+)=(-?[0-9.]+)(?:GiB)?", m[1]):
        if name in items:
            sink.figure(items[name], digits, "GiB")
        elif name == "gpu_memory_utilization":
            sink.setting(name, digits)


def _usage(m: Match, sink: Sink) -> None:
    """Weights and peak; from 0.28 on what was consumed, and a peak with the graphs' estimate."""
    consumed = m[6].startswith("consumed")
    sink.figure("consumed" if consumed else "weights_rounded", m[5], "GiB")
    sink.figure("activation_and_graphs" if consumed else "activation", m[7], "GiB")


def _blocks(m: Match, sink: Sink) -> None:
    """The device's blocks; on a CPU both figures are called CPU, the second is swap space."""
    sink.figure("kv_blocks", m[2], "blocks")
    if m[3]:
        sink.figure("cpu_blocks", m[3], "blocks")


def _overridden(m: Match, sink: Sink) -> None:
    # While graphs are profiled the engine overrides 0 blocks for a moment.
    if number(m[1]):
        sink.setting("num_gpu_blocks_override", m[2])


def _tokens(m: Match, sink: Sink) -> None:
    if m[1] == "CPU" and any(f.item == "kv_tokens" for f in sink.facts):
        return
    sink.figure("kv_tokens", m[2], "tokens")


def _needed(m: Match, sink: Sink) -> None:
    """Too long: `To serve at least one request with the models's max seq len (N), (N GiB …`."""
    longest = re.search(r"estimated maximum model length is ([0-9,]+)", sink.text)
    sink.refuse(
        "too_long", m[0],
        max_model_len=number(m[1]),
        needed_bytes=sink.figure("needed", m[2], "GiB"),
        available_bytes=sink.figure("kv_pool", m[3], "GiB"),
        longest=number(longest[1]) if longest else None,
    )  # fmt: skip
    sink.setting("max_model_len", m[1])


def _too_many_tokens(m: Match, sink: Sink) -> None:
    """V0: the pool's tokens stand where V1 prints GiB."""
    sink.figure("kv_tokens", m[2], "tokens")
    sink.refuse("too_long", m[0], max_model_len=number(m[1]), longest=number(m[2]))
    sink.setting("max_model_len", m[1])


def _taken(m: Match, sink: Sink) -> None:
    free = sink.figure("free_at_start", m[1], "GiB")
    want = sink.figure("usable", m[4], "GiB")
    sink.figure("memory", m[2], "GiB")
    sink.setting("gpu_memory_utilization", m[3])
    sink.refuse("memory_taken", m[0], needed_bytes=want, available_bytes=free)


def _runner(m: Match, sink: Sink) -> None:
    """Which model runner loaded the model; that of V0 has the V2 runner's file name."""
    sink.marks.add("runner V1" if m[1] else "runner V2")


def _state_blocks(m: Match, sink: Sink) -> None:
    """Hybrids: more requests than blocks for their states, so decoding graphs cannot be captured.

    0.24's and later releases' words; the pool stands in the lines before.
    """
    sink.setting("max_num_seqs", m[1])
    sink.refuse("state_blocks", m[0])


def _not_started(code: str) -> Callable[[Match, Sink], None]:
    """A refusal whose sentence says all."""

    def read(m: Match, sink: Sink) -> None:
        sink.refuse(code, m[0])

    return read


def _no_pool(m: Match, sink: Sink) -> None:
    sink.refuse("no_pool", m[0])


def _failed(m: Match, sink: Sink) -> None:
    if not sink.refusals:
        sink.refuse("failed", m[0])


FAMILY = Family("vllm", (
    Wording("API server version", r"vLLM API server version v?([0-9][^\s,]*)", ("version",),
            opens="server", figure=False),
    Wording("LLM engine",
            r"Initializing an? (V[01] )?LLM engine(?: \(v([^)]*)\))? with config: (.*)",
            read=_config, opens="engine", figure=False),
    Wording("█  version ", r"█\s+version\s+v?(\S+)", ("version",), figure=False),
    Wording("█  model ", r"█\s+model\s+(\S+)", ("model",), figure=False),
    Wording("non-default args: {", r"non-default args: \{(.*)", read=_non_default, figure=False),
    Wording("args: Namespace(", r"args: Namespace\((.*)", read=_non_default, figure=False),
    Wording("Starting to load model ", r"Starting to load model (\S+?)(?:\.\.\.|\s|$)", ("model",),
            figure=False),
    Wording("Using max model len ", rf"Using max model len {_N}", ("=max_model_len",),
            figure=False),
    Wording("max_num_batched_tokens=", rf"is enabled with max_num_batched_tokens={_N}",
            ("=max_num_batched_tokens",), figure=False),
    Wording("odel weights t", rf"Loading model weights took {_G} ?G", ("weights GiB",)),
    Wording("odel weights t",
            rf"model weights take {_G} ?GiB; non_torch_memory takes {_G} ?GiB; PyTorch activation "
            rf"peak memory takes {_G} ?GiB; the rest of the memory reserved for KV Cache is {_G}",
            ("weights_rounded GiB", "non_torch GiB", "activation GiB", "kv_pool GiB")),
    Wording("odel weights t", rf"Loading model weights took {_G} ?MB", ("weights MiB",)),
    Wording("total_gpu_memory", rf"total_gpu_memory\s{{2,}}{_G}GiB", ("memory GiB",)),
    Wording("instance can use ", rf"instance can use\s{{2,}}{_G}GiB", ("usable GiB",)),
    Wording("odel weights t", rf"model weights take\s{{2,}}{_G}GiB", ("weights_rounded GiB",)),
    Wording("non_torch_memory", rf"non_torch_memory\s{{2,}}{_G}GiB", ("non_torch GiB",)),
    Wording("activation peak memory", rf"activation peak memory\s{{2,}}{_G}GiB",
            ("activation GiB",)),
    Wording("available_kv_cache_memory", rf"available_kv_cache_memory\s{{2,}}{_G}GiB",
            ("kv_pool GiB",)),
    Wording("Model loading took ", rf"Model loading took {_G} ?Gi?B", ("weights GiB",)),
    Wording("model_runner.py:", r"\b(gpu_)?model_runner\.py:[0-9]+\] ?Model loading took ",
            read=_runner, figure=False),
    Wording("Memory profiling results: ", r"Memory profiling results: (.*)", read=_profile),
    Wording("Total non KV cache memory: ",
            rf"Total non KV cache memory: {_G}GiB; torch peak memory increase: {_G}GiB; non-torch "
            rf"forward increase memory: {_G}GiB; weights memory: {_G}GiB",
            ("beside_kv GiB", "activation GiB", "non_torch GiB", "weights_rounded GiB")),
    Wording("worker init memory snapshot: ",
            rf"memory snapshot: .*?free_memory={_G}GiB, total_memory={_G}GiB",
            ("free_at_start GiB", "memory GiB")),
    Wording("worker requested memory: ", rf"worker requested memory: {_G}GiB", ("usable GiB",)),
    Wording("Initial free memory",
            rf"Initial free memory: {_G} GiB; Requested memory: {_G} \(util\), {_G} GiB",
            ("free_at_start GiB", "=gpu_memory_utilization", "usable GiB")),
    Wording("total_gpu_memory (",
            rf"use total_gpu_memory \({_G} ?GiB\) x gpu_memory_utilization \({_G}\) = {_G} ?GiB",
            ("memory GiB", "=gpu_memory_utilization", "usable GiB")),
    Wording("Available KV cache memory: ", rf"Available KV cache memory: {_G} GiB",
            ("kv_pool GiB",)),
    Wording("CUDA graph memory", rf"Estimated CUDA graph memory: {_G} GiB",
            ("graphs_estimated GiB",)),
    Wording("CUDA graph memory",
            rf"CUDA graph memory profiling (?:is|will be) enabled.*?gpu.memory.utilization[= ]"
            rf"(?:from )?{_G}(?<!\.)", ("=gpu_memory_utilization",), figure=False),
    Wording("graph pool memory: ",
            rf"graph pool memory: {_G} GiB \(actual\), {_G} GiB \(estimated\)",
            ("graphs GiB", "graphs_estimated GiB")),
    Wording("Free memory on device",
            rf"Free memory on device(?: \S+)? \({_G}/{_G} GiB\) on startup\.{_GAP}Desired GPU "
            rf"memory utilization is \({_G}, {_G} GiB\)\.{_GAP}Actual usage is {_G} GiB for "
            rf"(consumed memory|weight)[^,]*, {_G} GiB for peak activation"
            rf"(?:, {_G} GiB for non-torch memory)?, and {_G} GiB for CUDAGraph memory",
            ("free_at_start GiB", "memory GiB", "=gpu_memory_utilization", "usable GiB", "", "",
             "", "non_torch GiB", "graphs GiB"), read=_usage),
    Wording("Free memory on device",
            rf"Free memory on device(?: \S+)? \({_G}/{_G} GiB\) on startup is less than desired "
            rf"GPU memory utilization \({_G}, {_G} GiB\)", read=_taken),
    Wording("Current kv cache memory", rf"Current kv cache memory in use is {_G} GiB",
            ("kv_pool GiB",)),
    Wording("Current kv cache memory", rf"Current kv cache memory in use is {_N} bytes",
            ("kv_pool B",)),
    Wording("Initial free memory ",
            rf"Initial free memory:? {_G} GiB, reserved {_G} GiB memory for KV Cache",
            ("free_at_start GiB", "kv_pool GiB")),
    Wording("Graph capturing finished", rf"Graph capturing finished in [0-9.]+ \S+?, took {_G} GiB",
            ("graphs GiB",)),
    Wording(" blocks: ",
            rf"\b(GPU|CUDA|cuda|CPU|npu|NPU|hpu|HPU|xpu|XPU|rocm|tpu|TPU|neuron|musa) blocks: {_N}"
            rf"(?:, # CPU blocks: {_N})?", read=_blocks),
    Wording("KV cache size: ",
            rf"(GPU|CPU|XPU|HPU|NPU|TPU|GPU \+ host) KV cache size: {_N} tokens", read=_tokens),
    Wording("Maximum concurrency for ",
            rf"Maximum concurrency for {_N} tokens per request: {_G}x",
            ("=max_model_len", "max_concurrency ×")),
    Wording("num_gpu_blocks", rf"initialization after num_gpu_blocks is: {_N}",
            ("kv_blocks blocks",)),
    Wording("num_gpu_blocks",
            rf"Overriding num_gpu_blocks={_N} with num_gpu_blocks_override={_N}", read=_overridden,
            figure=False),
    Wording("padding layers, may waste",
            rf"Add {_N} padding layers, may waste at most {_G}% KV cache memory",
            ("padding_layers layers", "padding_waste %"), figure=False),
    Wording("attention block size to ", rf"Setting attention block size to {_N} tokens",
            ("=block_size",), figure=False),
    Wording("mamba page size by ", rf"Padding mamba page size by {_G}%", ("mamba_padding %",),
            figure=False),
    Wording("cp_world_size", r"GPU KV cache size by the (?:cp|dcp)_world_size ([0-9]+)",
            ("=decode_context_parallel_size",), figure=False),
    Wording("reserved for HPUGraphs",
            rf"Free device memory: {_G} GiB, {_G} GiB usable \(gpu_memory_utilization={_G}\), "
            rf"{_G} GiB reserved for HPUGraphs \([^)]*\), {_G} GiB reserved for KV cache",
            ("free_after_weights GiB", "usable GiB", "=gpu_memory_utilization",
             "graphs_estimated GiB", "kv_pool GiB")),
    Wording("available Mamba cache blocks",
            rf"max_num_seqs \({_N}\) exceeds available Mamba cache blocks \({_N}\)",
            read=_state_blocks),
    Wording("for the cache blocks", r"No available memory for the cache blocks", read=_no_pool),
    Wording("be stored in KV cache",
            rf"max seq len \({_N}\) is larger than the maximum number of tokens that can be "
            rf"stored in KV cache \({_N}\)", read=_too_many_tokens),
    Wording("at least one request with the",
            rf"To serve at least one request with the models?'s max seq len \({_N}\), "
            rf"\({_G} ?GiB KV cache is needed, which is larger than the available KV cache memory "
            rf"\({_G} ?GiB\)", read=_needed),
    Wording("is greater than the derived max_model_len",
            rf"User-specified max_model_len \({_N}\) is greater than the derived max_model_len",
            read=_not_started("longer_than_model")),
    Wording("must be divisible by tensor parallel size",
            rf"Total number of attention heads \({_N}\) must be divisible by tensor parallel size "
            rf"\({_N}\)", read=_not_started("not_divisible")),
    Wording("is smaller than max_model_len",
            rf"max_num_batched_tokens \({_N}\) is smaller than max_model_len \({_N}\)",
            read=_not_started("too_few_batched_tokens")),
    Wording("when warming up sampler",
            rf"CUDA out of memory occurred when warming up sampler with {_N} dummy requests",
            read=_not_started("out_of_memory")),
    Wording(" is only supported on GPUs with compute capability",
            r"\S+ is only supported on GPUs with compute capability of at least [0-9.]+",
            read=_not_started("dtype")),
    Wording(" failed to start",
            r"(?:EngineCore|WorkerProc|Engine core \S*)[^.]{0,40} failed to start", read=_failed),
    Wording("EngineCore hit an exception", r"EngineCore hit an exception", read=_failed),
    Wording("Application startup complete", r"(Application startup complete)", ("ready",),
            figure=False),
))  # fmt: skip
