"""`vllm serve …` and its kin: flags, suffixes, JSON, containers."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.launch.flags import Launch
from kvcalc.launch.parse import parse_launch


def launch(line: str) -> Launch:
    """The line, word by word as a shell passes it."""
    return parse_launch(shlex.split(line))


def serve(flags: str) -> Launch:
    """`vllm serve m` with flags."""
    return launch(f"vllm serve m {flags}")


def test_the_contracts_line() -> None:
    found = launch("vllm serve Qwen/Qwen3-8B --max-model-len 32k -tp 2")

    assert (found.engine, found.model) == ("vllm", "Qwen/Qwen3-8B")
    assert found.options == {"context": 32_000, "tp": 2}
    assert (found.settings, found.ignored, found.default_context) == ({}, (), "")


@pytest.mark.parametrize("line", [
    "vllm serve Qwen/Qwen3-8B", "vllm serve --model Qwen/Qwen3-8B",
    "vllm serve --model=Qwen/Qwen3-8B",
    "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B",
    "CUDA_VISIBLE_DEVICES=0,1 /bin/python3 -m vllm.entrypoints.api_server --model Qwen/Qwen3-8B",
    "sudo -E env A=1 nohup /opt/venv/bin/vllm serve Qwen/Qwen3-8B",
    "uv run vllm serve Qwen/Qwen3-8B",
    "conda run -n vllm vllm serve Qwen/Qwen3-8B",
    ("docker run --gpus all -it --rm -p 8000:8000 -v ~/.cache:/root/.cache --ipc=host "
    "vllm/vllm-openai --model Qwen/Qwen3-8B"),
    "docker run --name vllm --runtime nvidia vllm/vllm-openai Qwen/Qwen3-8B",
    "podman run -d --device nvidia.com/gpu=all docker.io/vllm/vllm-openai vllm serve Qwen/Qwen3-8B",
    "vllm serve --trust-remote-code --enable-auto-tool-choice Qwen/Qwen3-8B",
    "vllm serve --some-new-switch Qwen/Qwen3-8B",
])  # fmt: skip
def test_the_model_is_found(line: str) -> None:
    assert launch(line).model == "Qwen/Qwen3-8B"
    assert launch(line).engine == "vllm"


@pytest.mark.parametrize(("text", "tokens"), [
    ("32768", 32_768), ("32k", 32_000), ("32K", 32_768), ("128k", 128_000), ("128K", 131_072),
    ("1m", 1_000_000), ("1M", 1_048_576), ("25.6k", 25_600), ("1.5m", 1_500_000),
])  # fmt: skip
def test_numbers_as_vllm_reads_them(text: str, tokens: int) -> None:
    """Small suffixes are decimal, capitals binary; decimals only with small ones."""
    assert serve(f"--max-model-len {text}").options["context"] == tokens


@pytest.mark.parametrize("flags", [
    "--max-model-len 32x", "--max-model-len 1.5K", "--max-model-len 1.5", "--max-model-len -7",
    "--max-model-len 9999999T", "--max-model-len", "-tp", "-tp two", "--gpu-memory-utilization nan",
    "--gpu-memory-utilization x", "--max-model-len --enforce-eager",
])  # fmt: skip
def test_what_vllm_would_refuse_is_refused_in_one_line(flags: str) -> None:
    with pytest.raises(KvcalcError) as told:
        serve(flags)
    assert told.value.code == "usage"
    assert told.value.message.startswith("launch line: -")
    assert "\n" not in told.value.message


@pytest.mark.parametrize(("flags", "options"), [
    ("--tensor_parallel_size=4", {"tp": 4}),
    ("-tp 4 -pp 2 -dp 3 -dcp 2", {"tp": 4, "pp": 2, "dp": 3, "dcp": 2}),
    ("-tp=8", {"tp": 8}), ("-tp8", {"tp": 8}), ("--tensor-parallel 4", {"tp": 4}),
    ("-dp 8 --enable-expert-parallel", {"dp": 8, "ep": 8}),
    ("-tp 2 -dp 4 --enable-expert-parallel", {"tp": 2, "dp": 4, "ep": 8}),
    ("--gpu-memory-utilization .95", {"utilization": ".95"}),
    ("--kv-cache-dtype fp8_e4m3", {"kv_dtype": "fp8_e4m3"}), ("--dtype auto", {}),
    ("--dtype half", {"dtype": "half"}), ("--block-size 32", {"block_size": 32}),
    ("-q awq_marlin", {"weights": "awq"}), ("--quantization compressed-tensors", {}),
    ("--max-model-len auto", {"solve": "context"}), ("--max-model-len -1", {"solve": "context"}),
    ("""--hf-overrides '{"rope_scaling": {"factor": 4}}'""", {"allow_long_context": True}),
    ("""--rope-scaling '{"rope_type": "yarn"}'""", {"allow_long_context": True}),
])  # fmt: skip
def test_flags_become_options(flags: str, options: dict[str, Any]) -> None:
    assert serve(flags).options == options
    assert serve(flags).ignored == ()


@pytest.mark.parametrize(("flags", "settings"), [
    ("--max-num-seqs 64", {"max_num_seqs": 64}),
    ("--max_num_batched_tokens=8k", {"max_num_batched_tokens": 8000}),
    ("--enforce-eager", {"enforce_eager": True}), ("-O0", {"enforce_eager": True}), ("-O3", {}),
    ("--no-enable-prefix-caching", {"enable_prefix_caching": False}),
    ("--enable-chunked-prefill", {"enable_chunked_prefill": True}),
    ("--enable-chunked-prefill=false", {}),
    ("--kv-cache-memory-bytes 8G", {"kv_cache_memory_bytes": 8 * 2**30}),
    ("--enable-lora --max-lora-rank 32", {"max_loras": 1, "max_lora_rank": 32}),
    ("--enable-lora --max-loras 4", {"max_loras": 4}),
    ("""--speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'""",
     {"num_speculative_tokens": 2}),
    ("""--speculative_config='{"method":"ngram","num_speculative_tokens":5}'""",
     {"num_speculative_tokens": 5, "num_draft_layers": 0}),
    ("--speculative-config.method eagle3 --speculative-config.num_speculative_tokens 3",
     {"num_speculative_tokens": 3}),
    ("""--compilation-config '{"cudagraph_capture_sizes": [1, 2, 4]}'""",
     {"cudagraph_capture_sizes": "1,2,4"}),
    ("""-cc '{"cudagraph_mode": "NONE"}'""", {"enforce_eager": True}),
    ("--compilation-config 3", {}),
    ("--cudagraph-capture-sizes 1 2 4 8", {"cudagraph_capture_sizes": "1,2,4,8"}),
])  # fmt: skip
def test_flags_become_settings(flags: str, settings: dict[str, Any]) -> None:
    assert serve(flags).settings == settings
    assert serve(flags).ignored == ()
    assert serve(flags).default_context == "model"


def test_what_says_nothing_of_memory_is_named() -> None:
    found = serve(
        "--host 0.0.0.0 --port 8000 --served-model-name a b --tool-call-parser hermes "
        "--enable-auto-tool-choice --frobnicate 7 --max-num-seqs 8 extra "
        """--hf-overrides '{"architectures": ["X"]}'"""
    )

    assert found.settings == {"max_num_seqs": 8}
    assert found.ignored == (
        "--host", "--port", "--served-model-name", "--tool-call-parser",
        "--enable-auto-tool-choice", "--frobnicate", "extra", "--hf-overrides architectures",
    )  # fmt: skip


def test_a_draft_model_is_named_not_guessed() -> None:
    found = serve("""--speculative-config '{"model": "a/b", "num_speculative_tokens": 4}'""")

    assert found.ignored == ("the draft model a/b",)


def test_the_environment_says_some_of_it() -> None:
    assert launch("VLLM_USE_V1=0 vllm serve m").settings == {"use_v1": False}
    found = launch("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve m")
    assert found.options == {"allow_long_context": True}
    found = launch("docker run -e VLLM_USE_V1=0 vllm/vllm-openai:v0.9.2 --model m")
    assert (found.settings, found.options) == ({"use_v1": False}, {"engine_version": "0.9.2"})


def test_a_whole_line_in_one_word_as_people_paste_it() -> None:
    found = parse_launch([
        "vllm serve Qwen/Qwen3-8B \\\n    --max-model-len 32k \\\n    -tp 2 2>&1 | tee server.log"
    ])  # fmt: skip

    assert found.options == {"context": 32_000, "tp": 2}
    assert found.ignored == ()


def test_the_context_without_a_flag_is_the_models() -> None:
    assert serve("").context(131_072) == 131_072
    assert serve("--max-model-len 4096").context(131_072) == 4096


@pytest.mark.parametrize("words", [
    [], [""], ["foo", "--bar"], ["docker", "run"], ["docker", "run", "nginx"], ["vllm"],
    ["vllm", "m"],
])  # fmt: skip
def test_a_line_that_starts_no_engine(words: list[str]) -> None:
    with pytest.raises(KvcalcError) as told:
        parse_launch(words)
    assert told.value.code == "usage"
    assert told.value.message.startswith("launch line: ")
