"""What a release of vLLM logs or refuses, and the command that starts it."""

from __future__ import annotations

from kvcalc.core.plan import Memory
from kvcalc.core.shard import Parallel
from kvcalc.engines.vllm.rules import VLLM
from tests.engines.test_vllm_rules import longest, plan, text

GIB = 2**30


def test_lines_of_the_newest_release() -> None:
    lines = text(plan("llama-3.1-8b", "rtx4090", context=8192)).split("\n")
    assert lines[0] == "Model loading took 14.99 GiB memory"
    assert lines[1].startswith("Available KV cache memory: ")
    assert lines[2].startswith("GPU KV cache size: ")
    assert ", Maximum concurrency for 8,192 tokens per request: " in lines[2]


def test_lines_of_0_12() -> None:
    """RTX 3090 log: 14.9889 GiB loaded; 6.95 GiB logged are 56,880 tokens and 1.79 requests."""
    settings = {"max_num_seqs": 64, "max_num_batched_tokens": 2048}
    p = plan("llama-3.1-8b", "rtx3090", version="0.12.0", context=31_800, settings=settings)
    assert text(p).startswith("Model loading took 14.9888 GiB memory")
    p = p._replace(kv_pool=int(6.947 * GIB))
    assert text(p).split("\n") == [
        "Available KV cache memory: 6.95 GiB",
        "GPU KV cache size: 56,896 tokens",
        "Maximum concurrency for 31,800 tokens per request: 1.79x",
    ]


def test_lines_of_the_v0_engine() -> None:
    """7.28 GiB requested of 14.56; 5,519 blocks of 458,752 B are 2.36 GiB; 4 GiB of swap 9,362."""
    memory = Memory(int(14.56 * GIB))
    p = plan("qwen2.5-1.5b", "t4", version="0.7.2", context=32_768, memory=memory)
    assert "total_gpu_memory (14.56GiB) x gpu_memory_utilization (0.90) = 13.10GiB" in text(p)
    assert text(p).startswith("Loading model weights took 2.9")
    p = p._replace(kv_pool=5519 * 458_752)
    assert "# CUDA blocks: 5519, # CPU blocks: 9362" in text(p)
    assert "Maximum concurrency for 32768 tokens per request: 2.69x" in text(p)
    assert "# GPU blocks: 5519" in text(p._replace(version="0.6.6"))


def test_lines_of_hybrids() -> None:
    p = plan("gemma-3-27b", None, kv_pool=110 * GIB, version="0.10.2")
    assert "Add 8 padding layers, may waste at most 15.38% KV cache memory" in text(p)
    p = plan("qwen3-next-80b-a3b", None, kv_pool=16 * GIB)
    assert "Setting attention block size to 544 tokens" in text(p)


def test_a_refusal_names_the_longest_length() -> None:
    """28 layers · 8 heads · 512 B: 28 GiB for 262,144 tokens; 13.69 GiB hold 128,128 or so."""
    p = plan("qwen3-1.7b", None, kv_pool=int(13.69 * GIB), context=262_144, allow_long=True)
    lines = text(p)
    assert "To serve at least one request with the model's max seq len (262144), " in lines
    assert "(28.0 GiB KV cache is needed" in lines
    assert f"estimated maximum model length is {longest(p)}." in lines
    older = text(p._replace(version="0.12.0"))
    assert "the models's max seq len" in older
    assert "13.69 GiB). Based on" in older
    v0 = text(p._replace(version="0.6.5"))
    assert "The model's max seq len (262144) is larger than the maximum number of tokens" in v0


# Commands


def test_command() -> None:
    p = plan("llama-3.1-8b", kv="fp8", parallel=Parallel(tp=2, dp=2), block_size=32)
    assert VLLM.command(p) == (
        "vllm serve meta-llama/Llama-3.1-8B --max-model-len 4096 --tensor-parallel-size 2 "
        "--data-parallel-size 2 --gpu-memory-utilization 0.92 --kv-cache-dtype fp8 --block-size 32"
    )


def test_command_with_settings() -> None:
    settings = {
        "max_num_seqs": 64, "enforce_eager": True, "async_scheduling": False, "max_loras": 2,
        "cudagraph_capture_sizes": "1,2", "num_speculative_tokens": 2,
    }  # fmt: skip
    command = VLLM.command(plan("llama-3.1-8b", weights="awq", settings=settings)) or ""
    assert command.startswith("vllm serve AWQ_CHECKPOINT ")
    for words in (
        "--max-num-seqs 64", "--enforce-eager", "--no-async-scheduling",
        "--enable-lora --max-loras 2", "--cudagraph-capture-sizes 1 2",
        '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'',
    ):  # fmt: skip
        assert words in command
    old = VLLM.command(plan("llama-3.1-8b", version="0.4.2")) or ""
    assert old.startswith("python -m vllm.entrypoints.openai.api_server --model meta-llama/")
    v0 = VLLM.command(plan("llama-3.1-8b", version="0.9.2", settings={"use_v1": False})) or ""
    assert v0.startswith("VLLM_USE_V1=0 vllm serve")
