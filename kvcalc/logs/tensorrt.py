"""TensorRT-LLM's wordings, 0.5 to 1.2: the C++ runtime, PyTorch and AutoDeploy; one rank each."""

from __future__ import annotations

from kvcalc.logs.wording import Family, Match, Sink, Wording, number

_N, _G = r"([0-9]+(?:,[0-9]{3})*)", r"(-?[0-9.]+)"
#: What the C++ runtime calls the settings of an engine.
_BUILT = {
    "maxBatchSize": "max_batch_size", "maxBeamWidth": "max_beam_width",
    "maxSequenceLen": "max_seq_len", "maxNumTokens": "max_num_tokens",
}  # fmt: skip


def _allocated(m: Match, sink: Sink) -> None:
    """AutoDeploy makes the pool itself, and then prints 0.00 GiB: no figure."""
    if m[1].strip("0."):
        sink.figure("kv_pool", m[1], "GiB")
    sink.figure("kv_tokens", m[2], "tokens")


def _per_sequence(m: Match, sink: Sink) -> None:
    """One line for each window size: `256 [window size=16384], tokens per block=64, …`."""
    device = f"window {m[2]}" if m[2] else ""
    sink.figure("blocks_per_sequence", m[1], "blocks", device)
    if m[3]:
        sink.setting("tokens_per_block", m[3])
    if m[4]:
        sink.figure("kv_blocks", m[4], "blocks", device)
    if m[5]:
        sink.figure("cpu_blocks", m[5], "blocks", device)
    if m[6]:
        sink.setting("max_seq_len", m[6])


def _refused(m: Match, sink: Sink) -> None:
    per_block = number(m[3]) or 1
    sink.setting("tokens_per_block", m[3])
    sink.refuse(
        "too_long", m[0], max_model_len=(number(m[4]) or 0) * per_block, longest=number(m[1])
    )


def _out_of_memory(m: Match, sink: Sink) -> None:
    if not any(r.code == "out_of_memory" for r in sink.refusals):
        sink.refuse("out_of_memory", m[0])


def _no_sequence(m: Match, sink: Sink) -> None:
    sink.refuse("no_pool", m[0])


def _setting(m: Match, sink: Sink) -> None:
    """`TRTGptModel maxSequenceLen: 8192`: what the engine was built for."""
    sink.setting(_BUILT[m[1]], m[2])


def _named(m: Match, sink: Sink) -> None:
    """The hub's cache names the model: models--ORG--NAME."""
    sink.model = sink.model or f"{m[1]}/{m[2]}"


def _sequence_info(m: Match, sink: Sink) -> None:
    for name, digits in zip(("max_seq_len", "max_batch_size", "tokens_per_block",
                             "max_num_tokens"), m.groups(), strict=True):  # fmt: skip
        sink.setting(name, digits)


FAMILY = Family("tensorrt-llm", (
    Wording("LLM version: ", r"TensorRT[- ]LLM version: (\S+)", ("version",), opens="version",
            figure=False),
    Wording("found in the config file", r"Engine version (\S+) found in the config file",
            ("version",), figure=False),
    Wording("trtllm-serve for model ", r"Starting trtllm-serve for model (\S+)", ("model",),
            opens="server", figure=False),
    Wording("Using LLM with ", r"Using LLM with (\S+) backend", ("=backend",), figure=False),
    Wording("from build_config to ",
            rf"Overriding (max_batch_size|max_seq_len|max_num_tokens|max_beam_width) from "
            rf"build_config to {_N}",
            read=lambda m, sink: sink.setting(m[1], m[2]), figure=False),
    Wording("[SequenceInfo:]",
            rf"\[SequenceInfo:\] self\.max_seq_len={_N}, self\.max_batch_size={_N}, "
            rf"self\.page_size={_N}, self\.max_num_tokens={_N}", read=_sequence_info,
            figure=False),
    Wording("max_num_requests=",
            rf"max_seq_len={_N}, max_num_requests={_N}, max_num_tokens={_N}",
            ("=max_seq_len", "=max_batch_size", "=max_num_tokens"), figure=False),
    Wording("TRTGptModel max", rf"TRTGptModel ({'|'.join(_BUILT)}): {_N}", read=_setting,
            figure=False),
    Wording("MPI size: ", r"\bMPI size: ([0-9]{1,5})\b", ("=world_size",), figure=False),
    Wording("prefetching ", r"prefetching \S*?models--([^\s/]+?)--([^\s/]+)/", read=_named,
            figure=False),
    Wording("GPU memory for ", rf"Allocated {_G} MB GPU memory for runtime buffers",
            ("runtime_buffers MiB",)),
    Wording("GPU memory for ", rf"Allocated {_G} MB GPU memory for decoder", ("decoder MiB",)),
    Wording("engine deserialization: ",
            rf"TensorRT-managed allocation in engine deserialization: CPU \+[0-9]+, GPU \+{_N}",
            ("weights MiB",)),
    Wording("Loaded engine size: ", rf"Loaded engine size: {_N} MiB", ("weights MiB",)),
    Wording("for model weights", rf"Rank [0-9]+ uses {_G} GB for model weights",
            ("weights GiB",)),
    Wording("after loading model weights",
            rf"Memory used after loading model weights \(inside torch\)[^:]*: {_G} GiB",
            ("weights GiB",)),
    Wording("after loading model weights",
            rf"Memory used after loading model weights \(outside torch\)[^:]*: {_G} GiB",
            ("non_torch GiB",)),
    Wording("execution context memory", rf"Allocated {_G} MiB for execution context memory",
            ("execution_context MiB",)),
    Wording("for k/v cache", rf"Allocate {_N} bytes for k/v cache", ("kv_pool B",)),
    Wording("in paged KV cache", rf"Using {_N} (?:total )?tokens in paged KV cache"
            rf"(?:, and {_N} blocks per sequence)?",
            ("kv_tokens tokens", "blocks_per_sequence blocks")),
    Wording("Max tokens in paged KV cache: ",
            rf"Max tokens in paged KV cache: {_N}\. Allocating {_N} bytes",
            ("kv_tokens tokens", "kv_pool B")),
    Wording("in paged kv cache: total",
            rf"max tokens in paged kv cache: total: {_G} GiB, available: {_G} GiB",
            ("memory GiB", "free_after_weights GiB")),
    Wording("KV cache primary pool: ", rf"Number of blocks in KV cache primary pool: {_N}",
            ("kv_blocks blocks",)),
    Wording("KV cache secondary pool: ", rf"Number of blocks in KV cache secondary pool: {_N}",
            ("cpu_blocks blocks",)),
    Wording("tokens per block: ", rf"Number of tokens per block: {_N}", ("=tokens_per_block",),
            figure=False),
    Wording("Max KV cache ",
            rf"Max KV cache (?:pages|blocks) per sequence: {_N}(?: \[window size={_N}\])?"
            rf"(?:, tokens per block={_N})?(?:, primary blocks={_N})?(?:, secondary blocks={_N})?"
            rf"(?:, max sequence length={_N})?", read=_per_sequence),
    Wording("tokens in paged KV cache (",
            rf"Allocated {_G} GiB for max tokens in paged KV cache \({_N}\)", read=_allocated),
    Wording("max memory in KV cache", rf"Estimated max memory in KV cache ?: {_G} GiB",
            ("kv_pool_wanted GiB",)),
    Wording("when calculating max tokens: ",
            rf"Peak memory during memory usage profiling \([^)]*\): {_G} GiB, available KV cache "
            rf"memory when calculating max tokens: {_G} GiB, fraction is set {_G}",
            ("peak GiB", "kv_pool_wanted GiB", "=free_gpu_memory_fraction")),
    Wording("device total memory ", rf"device total memory {_G} GiB", ("memory GiB",)),
    Wording("fake cache manager with", rf"Using fake cache manager with head_dim=0 and num pages: "
            rf"{_N}", ("kv_blocks blocks",)),
    Wording("CUDA runtime error in ", r"CUDA runtime error in .{1,200}?: out of memory",
            read=_out_of_memory),
    Wording("Executor creation failed due to",
            r"Executor creation failed due to insufficient GPU memory", read=_out_of_memory),
    Wording("sequence in kvCache", r"Impossible to fit in any sequence in kvCache",
            read=_no_sequence),
    Wording("maxTokensInPagedKvCache (",
            rf"maxTokensInPagedKvCache \({_N}\) must be large enough to process at least 1 sequence"
            rf" to completion \(i\.e\. must be larger than beam_width \({_N}\) \* tokensPerBlock "
            rf"\({_N}\) \* maxBlocksPerSeq \({_N}\)", read=_refused),
))  # fmt: skip
