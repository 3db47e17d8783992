"""Launch lines of SGLang, llama.cpp, Ollama, TensorRT-LLM and LMDeploy by their own rules."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.engines import registry
from kvcalc.launch.flags import Launch
from kvcalc.launch.names import candidates, gguf_format
from kvcalc.launch.parse import parse_launch

GIB = 2**30


def launch(line: str) -> Launch:
    """The line, word by word as a shell passes it."""
    return parse_launch(shlex.split(line))


#: (line, engine, model, options, settings, ignored, default context)
LINES: tuple[tuple[str, str, str | None, dict[str, Any], dict[str, Any], tuple[str, ...], str], ...]
LINES = (
    (
        ("python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --mem-fraction-static "
        ".8 --context-length 32k --kv-cache-dtype fp8_e4m3 --host 0.0.0.0"),
        "sglang", "Qwen/Qwen3-8B", {"tp": 2, "context": 32_000, "kv_dtype": "fp8_e4m3"},
        {"mem_fraction_static": ".8"}, ("--host",), "",
    ),
    (
        ("sglang serve --model-path a/b --tp-size 8 --dp-size 8 --enable-dp-attention --ep 8 "
        "--chunked-prefill-size -1 --speculative-algorithm EAGLE --disable-radix-cache"),
        "sglang", "a/b", {"tp": 1, "dp": 8, "ep": 8},
        {"enable_dp_attention": True, "speculative_algorithm": "eagle",
         "disable_radix_cache": True}, (), "model",
    ),
    (
        ("docker run --gpus all --shm-size 32g -p 30000:30000 lmsysorg/sglang:v0.5.2-cu126 python3 "
        "-m sglang.launch_server --model-path a/b --max-total-tokens 100K"),
        "sglang", "a/b", {"engine_version": "0.5.2"}, {"max_total_tokens": 102_400}, (), "model",
    ),
    (
        ("./build/bin/llama-server -m /m/Qwen3-8B-Q4_K_M.gguf -c 32768 -np 4 -ngl 99 -fa on "
        "-ctk q8_0 -ctv q8_0 --jinja -t 8"),
        "llama.cpp", "/m/Qwen3-8B-Q4_K_M.gguf",
        {"context": 8192, "k_dtype": "q8_0", "v_dtype": "q8_0", "weights": "q4_k_m"},
        {"n_ctx": 32_768, "n_seq_max": 4, "n_gpu_layers": 99, "flash_attn": True},
        ("--jinja", "-t"), "",
    ),
    (
        "llama-server -hf unsloth/gemma-3-27b-it-GGUF:Q4_K_M -c 0 -fa --swa-full -ub 1024",
        "llama.cpp", "unsloth/gemma-3-27b-it-GGUF:Q4_K_M", {"weights": "q4_k_m"},
        {"flash_attn": True, "swa_full": True, "n_ubatch": 1024, "n_seq_max": 4,
         "kv_unified": True}, (), "model",
    ),
    (
        "llama-cli -m m.gguf -c8192 -ngl auto --fit off --fit-target 2048,1024 -nkvo -kvu",
        "llama.cpp", "m.gguf", {"context": 8192},
        {"n_ctx": 8192, "fit": False, "fit_target": 2 * GIB, "no_kv_offload": True,
         "kv_unified": True}, (), "",
    ),
    (
        "./llama-server -m m.gguf -c 16384 -mla 3 -fmoe -amb 512 -fa auto",
        "ik_llama.cpp", "m.gguf", {"context": 16_384}, {"n_ctx": 16_384, "mla_attn": "3"}, (), "",
    ),
    (
        "LLAMA_ARG_CTX_SIZE=8192 LLAMA_ARG_N_PARALLEL=2 llama-server -m m.gguf",
        "llama.cpp", "m.gguf", {"context": 4096}, {"n_ctx": 8192, "n_seq_max": 2}, (), "",
    ),
    (
        "docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m /m/a.gguf -c 4096 -np 1",
        "llama.cpp", "/m/a.gguf", {"context": 4096}, {"n_ctx": 4096, "n_seq_max": 1}, (), "",
    ),
    (
        "./server -m m.gguf -c 4096 -ngl 20", "llama.cpp", "m.gguf", {"context": 4096},
        {"n_ctx": 4096, "n_gpu_layers": 20}, (), "",
    ),
    (
        ("OLLAMA_NUM_PARALLEL=4 OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KV_CACHE_TYPE=q8_0 "
        "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KEEP_ALIVE=5m ollama serve"),
        "ollama", None, {"context": 8192},
        {"num_parallel": 4, "num_ctx": 8192, "kv_cache_type": "q8_0", "flash_attention": True},
        ("OLLAMA_KEEP_ALIVE",), "",
    ),
    (
        "ollama run llama3.1:8b-instruct-q8_0 --verbose", "ollama", "llama3.1:8b-instruct-q8_0",
        {"weights": "q8_0"}, {"num_parallel": 1}, ("--verbose",), "vram",
    ),
    (
        "ollama run gemma3:27b num_ctx 16384 num_gpu=30", "ollama", "gemma3:27b",
        {"weights": "q4_k_m", "context": 16_384},
        {"num_parallel": 1, "num_ctx": 16_384, "num_gpu": 30}, (), "",
    ),
    (
        ("docker run -d --gpus=all -e OLLAMA_NUM_PARALLEL=2 -v ollama:/root/.ollama -p 11434:11434 "
        "ollama/ollama:0.17.0"), "ollama", None, {"engine_version": "0.17.0"}, {"num_parallel": 2},
        (), "vram",
    ),
    (
        ("trtllm-serve nvidia/Llama-3.1-8B-Instruct-FP8 --tp_size 2 --ep_size 2 --max_batch_size 8 "
        "--max_num_tokens 8192 --kv_cache_free_gpu_memory_fraction 0.85 --max_seq_len 8192 "
        "--backend pytorch --extra_llm_api_options x.yaml"),
        "tensorrt-llm", "nvidia/Llama-3.1-8B-Instruct-FP8", {"tp": 2, "ep": 2, "context": 8192},
        {"max_batch_size": 8, "max_num_tokens": 8192, "free_gpu_memory_fraction": "0.85"},
        ("--backend", "--extra-llm-api-options"), "",
    ),
    (
        ("lmdeploy serve api_server internlm/internlm2_5-7b-chat --tp 2 --session-len 32768 "
        "--cache-max-entry-count 0.5 --quant-policy 8 --model-format awq --server-port 23333"),
        "lmdeploy", "internlm/internlm2_5-7b-chat",
        {"tp": 2, "context": 32_768, "kv_dtype": "int8", "weights": "awq"},
        {"cache_max_entry_count": "0.5", "quant_policy": "8"}, ("--server-port",), "",
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", LINES, ids=[line[0][:60] for line in LINES])
def test_the_line_is_read_by_its_engines_rules(case: Any) -> None:
    line, engine, model, options, settings, ignored, default = case
    found = launch(line)

    assert (found.engine, found.model) == (engine, model)
    assert found.options == options
    assert found.settings == settings
    assert (found.ignored, found.default_context) == (ignored, default)


@pytest.mark.parametrize("case", LINES, ids=[line[0][:60] for line in LINES])
def test_its_settings_are_those_that_the_engine_has(case: Any) -> None:
    found = launch(case[0])

    known = registry.settings_of(registry.engine_of(found.engine), found.settings)
    assert known.keys() == found.settings.keys()


def test_llama_cpp_takes_no_suffixes() -> None:
    with pytest.raises(KvcalcError) as told:
        launch("llama-server -m m.gguf -c 32k")
    assert told.value.hint == "expected a whole number"


def test_ollamas_context_is_by_the_gpus_memory() -> None:
    """4,096 below 24 GiB, 32,768 below 48, then 262,144; never above the model's."""
    found = launch("ollama run llama3.1:8b")

    assert found.context(131_072, 12 * GIB) == 4096
    assert found.context(131_072, 24 * GIB) == 32_768
    assert found.context(131_072, 80 * GIB) == 131_072
    assert launch("OLLAMA_CONTEXT_LENGTH=8192 ollama serve").context(131_072, 80 * GIB) == 8192


@pytest.mark.parametrize(("name", "expected"), [
    ("Qwen/Qwen3-8B", "Qwen3-8B"), ("RedHatAI/Qwen3-14B-FP8-dynamic", "Qwen3-14B"),
    ("/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Meta-Llama-3.1-8B"),
    ("unsloth/gemma-3-27b-it-GGUF:Q4_K_M", "gemma-3-27b"),
    ("llama3.1:8b-instruct-q8_0", "llama3.1-8b"),
    ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc", "Qwen3-8B"),
    ("cpatonn/Qwen3-Coder-30B-A3B-Instruct-GPTQ-4bit", "Qwen3-Coder-30B-A3B"),
    ("C:\\models\\Qwen3-8B-UD-Q4_K_XL-00001-of-00002.gguf", "Qwen3-8B"),
])  # fmt: skip
def test_bare_names_of_models(name: str, expected: str) -> None:
    assert candidates(name)[0] == name
    assert candidates(name)[-1] == expected


@pytest.mark.parametrize(("name", "expected"), [
    ("/m/Qwen3-8B-Q4_K_M.gguf", "q4_k_m"), ("gemma3:27b", None), ("a/b:Q8_0", "q8_0"),
    ("x-UD-Q4_K_XL.gguf", "q4_k_xl"), ("x-IQ2_XXS-00001-of-00003.gguf", "iq2_xxs"),
    ("llama-f16.gguf", "f16"), ("Qwen3-8B", None),
])  # fmt: skip
def test_formats_that_names_tell(name: str, expected: str | None) -> None:
    assert gguf_format(name) == expected
