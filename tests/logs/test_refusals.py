"""Why an engine did not start: recognised, with what was needed, there, and would have fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.logs.conftest import Read

GIB, MIB = 2**30, 2**20
TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len (262144), (24.00 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). Based on "
    "the available memory, the estimated maximum model length is 34736. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total "
    "capacity of 23.58 GiB of which 615.31 MiB is free. Including non-PyTorch memory, this process "
    "has 22.97 GiB memory in use. Of the allocated memory 22.4 GiB is allocated by PyTorch"
)
#: (line, code, needed, available, longest length asked for, longest that fits)
LINES = (
    (TOO_LONG, "too_long", 24 * GIB, 3.18 * GIB, 262_144, 34_736),
    (TOO_LONG.replace("models's", "model's"), "too_long", 24 * GIB, 3.18 * GIB, 262_144, 34_736),
    (TOO_LONG.partition(" Based")[0], "too_long", 24 * GIB, 3.18 * GIB, 262_144, None),
    (
        ("ValueError: The model's max seq len (29000) is larger than the maximum number of tokens "
        "that can be stored in KV cache (23648). Try increasing `gpu_memory_utilization`"),
        "too_long", None, None, 29_000, 23_648,
    ),
    (
        ("ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine."),
        "no_pool", None, None, None, None,
    ),
    (
        ("ValueError: Free memory on device (9.53/14.56 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 13.11 GiB). Decrease GPU memory utilization"),
        "memory_taken", 13.11 * GIB, 9.53 * GIB, None, None,
    ),
    (
        ("ValueError: Free memory on device cuda:0 (9.53/14.56 GiB) on startup is less than "
        "desired GPU memory utilization (0.92, 13.4 GiB). Decrease GPU memory utilization"),
        "memory_taken", 13.4 * GIB, 9.53 * GIB, None, None,
    ),
    (
        ("ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (184). Each decode "
        "sequence requires one Mamba cache block, so CUDA graph capture cannot proceed."),
        "state_blocks", None, None, None, None,
    ),
    (
        ("ValueError: User-specified max_model_len (393216) is greater than the derived "
        "max_model_len (max_position_embeddings=262144.0 or model_max_length=None)"),
        "longer_than_model", None, None, None, None,
    ),
    (
        ("ValueError: Total number of attention heads (32) must be divisible by tensor parallel "
        "size (3)."),
        "not_divisible", None, None, None, None,
    ),
    (
        ("ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (8192). This "
        "effectively limits the maximum sequence length"),
        "too_few_batched_tokens", None, None, None, None,
    ),
    (
        ("RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
        "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`"),
        "out_of_memory", None, None, None, None,
    ),
    (
        ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. "
        "Your Tesla T4 GPU has compute capability 7.5."),
        "dtype", None, None, None, None,
    ),
    (
        "(EngineCore_DP0 pid=9) ERROR 11-01 [core.py:708] EngineCore failed to start.",
        "failed", None, None, None, None,
    ),
    (OUT_OF_MEMORY, "out_of_memory", 896 * MIB, 615.31 * MIB, None, None),
    (
        OUT_OF_MEMORY.replace("capacity", "capacty").replace("torch.Out", "torch.cuda.Out"),
        "out_of_memory", 896 * MIB, 615.31 * MIB, None, None,
    ),
    (
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current "
        "value: mem_fraction_static=0.8"), "no_pool", None, None, None, None,
    ),
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "no_pool", None, None, None, None,
    ),
    (
        ("[TensorRT-LLM][ERROR] Assertion failed: maxTokensInPagedKvCache (1024) must be large "
        "enough to process at least 1 sequence to completion (i.e. must be larger than beam_width "
        "(1) * tokensPerBlock (64) * maxBlocksPerSeq (17))"), "too_long", None, None, 1088, 1024,
    ),
    (
        ("[TM][WARNING] No enough blocks for `session_len` (32768), `session_len` truncated to "
        "26112."), "shortened", None, None, 32_768, 26_112,
    ),
    (
        "RuntimeError: [TM][ERROR] CUDA runtime error: out of memory /lmdeploy/src/x.h:42",
        "out_of_memory", None, None, None, None,
    ),
    (
        ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 12288.00 MiB on device 0: "
        "cudaMalloc failed: out of memory"), "out_of_memory", 12_288 * MIB, None, None, None,
    ),
    (
        "0.05.123.456 E alloc_tensor_range: failed to allocate CUDA0 buffer of size 8589934592",
        "out_of_memory", 8 * GIB, None, None, None,
    ),
    (
        "llama_kv_cache_init: failed to allocate buffer for kv cache",
        "out_of_memory", None, None, None, None,
    ),
    (
        "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 1073741824",
        "out_of_memory", GIB, None, None, None,
    ),
    (
        "llama_init_from_gpt_params: error: failed to create context with model 'm.gguf'",
        "failed", None, None, None, None,
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code", "needed", "available", "asked", "longest"), LINES,
    ids=[line[0][:60] for line in LINES],
)  # fmt: skip
def test_the_refusal_is_recognised(
    read: Read,
    line: str,
    code: str,
    needed: float | None,
    available: float | None,
    asked: int | None,
    longest: int | None,
) -> None:
    own = {"too_long": "INFO vLLM API server version 0.12.0"}.get(code, "Model loading took 1 GiB")
    log = read(own, line)

    assert [r.code for r in log.refusals] == [code]
    told = log.refusals[0]
    assert told.line == 2
    assert (told.max_model_len, told.longest) == (asked, longest)
    for fact, value in ((told.needed_bytes, needed), (told.available_bytes, available)):
        if value is None:
            assert fact is None
        else:
            assert fact is not None
            assert fact.low - 1 <= value <= fact.high + 1


def test_a_traceback_repeats_no_refusal(read: Read) -> None:
    """The engine, its worker and the server print the same sentence."""
    log = read(
        "INFO vLLM API server version 0.12.0",
        f"(EngineCore_DP0 pid=9) ERROR 11-01 [core.py:708] {TOO_LONG}",
        f"(EngineCore_DP0 pid=9) {TOO_LONG}",
        "(EngineCore_DP0 pid=9) ERROR 11-01 [core.py:708] EngineCore failed to start.",
        f"(APIServer pid=1) {TOO_LONG}",
    )

    assert [(r.code, r.line) for r in log.refusals] == [("too_long", 2)]


def test_an_allocation_that_is_done_without_is_no_refusal(read: Read) -> None:
    log = read(
        "llama_kv_cache:      CUDA0 KV buffer size =  8192.00 MiB",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 900.00 MiB on device 0: cudaMalloc "
        "failed: out of memory",
        "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 943718400",
        "llama_context: compute buffer allocation failed, retrying without pipeline parallelism",
        "llama_context:      CUDA0 compute buffer size =   300.00 MiB",
    )

    assert log.refusals == ()
