"""Logs as people paste them: broken in the middle of a dump, cut, with a service's prefix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvcalc.api.check import check
from kvcalc.core.results.check import CheckResult

if TYPE_CHECKING:
    from tests.logs.conftest import Read

GIB, MIB = 2**30, 2**20
Check = Callable[..., CheckResult]


@pytest.fixture
def checked(tmp_path: Path) -> Check:
    """Checks lines against a model."""

    def made(model: str | None, *lines: str, **options: int) -> CheckResult:
        path = tmp_path / "server.log"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return check(str(path), model, **options)  # type: ignore[arg-type]

    return made


def verdicts(result: CheckResult) -> dict[tuple[str, str], str]:
    """Of each figure that is compared."""
    return {(r.item, r.device): r.verdict for r in result.rows if r.predicted is not None}


def test_a_dump_broken_in_a_word_is_read_on(read: Read) -> None:
    """sgl-project/sglang#12496: the paste broke the line after so many characters."""
    log = read(
        "sglang-1  | [2025-11-01 16:50:30] server_args=ServerArgs(model_path='/m/gemma-3-12b-it', "
        "mem_fraction_static=0.717, enab",
        "le_priority_scheduling=False, page_size=16, swa_full_tokens_ratio=0.8, device='c",
    )

    assert log.settings["mem_fraction_static"] == 0.717
    assert (log.settings["page_size"], log.settings["swa_full_tokens_ratio"]) == (16, 0.8)


def test_a_dump_that_closes_is_not_read_on(read: Read) -> None:
    log = read(
        "[2025-11-01 16:50:30] server_args=ServerArgs(model_path='m', mem_fraction_static=0.7)",
        "page_size=64, of another line",
    )

    assert "page_size" not in log.settings


def test_a_plan_broken_between_its_figures(read: Read) -> None:
    """ollama/ollama#9181: indented lines, as a person wraps them."""
    log = read(
        "time=2025-02-18T02:29:51.627Z level=INFO source=server.go:130 msg=offload library=cuda "
        "layers.requested=-1 layers.model=81 ",
        '  layers.offload=44 layers.split=11,11,11,11 memory.available="[22.0 GiB 22.0 GiB]" ',
        '  memory.required.full="127.4 GiB" memory.required.kv="19.5 GiB"',
    )

    found = {f.item: f.value for f in log.facts}
    assert (found["model_layers"], found["gpu_layers"]) == (81, 44)
    assert found["estimated_kv"] == round(19.5 * GIB)
    assert found["free_at_start"] == 22 * GIB


@pytest.mark.parametrize("prefix", [
    "ollama  | ", "Aug 22 17:36:22 host ollama[30907]: ",
    ("llama_model_loader: loaded meta data with 33 key-value pairs and 579 tensors from "
    "/root/.ollama/models/blobs/sha256-41 (version GGUF V3 (latest))\n"),
])  # fmt: skip
def test_llamacpps_lines_of_ollamas_service(read: Read, prefix: str) -> None:
    """ollama/ollama#8447: only what stands before the lines, or the file, tells whose they are."""
    line = "llama_kv_cache_init:      CUDA0 KV buffer size =   160.00 MiB"

    assert read(f"{prefix}{line}").engine == "ollama"
    assert read(line).engine == "llama.cpp"


def test_a_line_in_ollamas_form_makes_the_log_ollamas(read: Read) -> None:
    """ollama/ollama#17482: from 2026 on a llama-server of its own prints all figures."""
    log = read(
        'time=2026-08-01T07:02:27.423Z level=INFO source=llama_server.go:1262 msg="waiting '
        'for llama-server to become available" status="llm server loading model"',
        "common_memory_breakdown_print: |   - CUDA0 (RTX 3090)   | 24124 = 23860 + (15946 = 15364 "
        "+     411 +     170) +      -15681 |",
    )

    assert log.engine == "ollama"


@pytest.mark.parametrize(
    ("line", "version", "gpu"),
    [
        ("version: 4202 (9f912511)", "build 4202 (9f912511)", None),
        ("version: 0.4.1-dev (build 11059, commit 059a34f8d)", "build 11059 (059a34f8d)", None),
        ("Vulkan0: NVIDIA GeForce RTX 2060 (NVIDIA) | uma: 0 |", None, "NVIDIA GeForce RTX 2060"),
        (
            "ggml_vulkan: 0 = AMD Radeon RX 7900 XTX (RADV NAVI31) (radv) | uma: 0 | fp16: 1",
            None, "AMD Radeon RX 7900 XTX (RADV NAVI31)",
        ),
        ("  Device 0: NVIDIA GeForce RTX 3050", None, "NVIDIA GeForce RTX 3050"),
    ],
)  # fmt: skip
def test_builds_and_devices(read: Read, line: str, version: str | None, gpu: str | None) -> None:
    log = read(line, "load_tensors:      CUDA0 model buffer size =   345.14 MiB")

    assert log.version == version
    assert log.devices == (() if gpu is None else (gpu,))


def test_models_by_the_line_that_starts_them(read: Read) -> None:
    """InternLM/lmdeploy#2724, sgl-project/sglang#1522, NVIDIA/TensorRT-LLM#6294."""
    log = read(
        "lmdeploy serve api_server meta-llama/Llama-3.1-70B-Instruct --tp 2 --log-level INFO",
        "[TM][INFO] [BlockManager] max_block_count = 32",
    )
    assert log.model == "meta-llama/Llama-3.1-70B-Instruct"

    log = read(
        "$ python -m sglang.launch_server --host 0.0.0.0 --model-path Qwen/Qwen3-8B --tp 2",
        "[2025-09-22 10:25:22 TP0] Memory pool end. avail mem=14.53 GB",
    )
    assert log.model == "Qwen/Qwen3-8B"

    log = read(
        "[TRT-LLM] [I] Rank 0 uses 8.46 GB for model weights.",
        "[TRT-LLM] [I] Rank 0 prefetching /c/hub/models--nvidia--Llama-3.1-8B-Instruct-FP8/"
        "snapshots/026c/model-00001-of-00002.safetensors to memory...",
    )
    assert log.model == "nvidia/Llama-3.1-8B-Instruct-FP8"


def test_the_context_follows_from_the_cells(checked: Check) -> None:
    """ggml-org/llama.cpp#17643, gpt-oss-20b: 12 layers each, 8 heads · 64 · 2 · 2 B = 2 KiB.

    4,096 cells · 12 · 2 KiB are 96 MiB. The windows hold 4 · 128 + 512 = 1,024 cells, 24 MiB.
    """
    result = checked(
        "gpt-oss-20b",
        "llama_kv_cache: size =   96.00 MiB (  4096 cells,  12 layers,  4/1 seqs), K (f16):   48.00"
        " MiB, V (f16):   48.00 MiB",
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells",
        "llama_kv_cache: size =   24.00 MiB (  1024 cells,  12 layers,  4/1 seqs), K (f16):   12.00"
        " MiB, V (f16):   12.00 MiB",
    )

    assert result.settings["n_ctx"] == 4096
    assert ("n_ctx", "4,096", "the cells of its cache") in result.assumed
    found = verdicts(result)
    assert found["kv_cache", ""] == found["kv_cache", "SWA"] == "ok"
    assert found["kv_cells", "SWA"] == "ok"
    assert ("kv_cells", "") not in found  # said by the log, so no proof


def test_latents_before_llamacpp_had_them(checked: Check) -> None:
    """ollama/ollama#8447, DeepSeek-R1 at 2,048 cells: 61 layers of 128 heads, expanded.

    K 128 · 192 and V 128 · 128 elements of 2 bytes: 5,856 and 3,904 MiB.
    """
    result = checked(
        "deepseek-r1",
        "llama_new_context_with_model: n_ctx         = 2048",
        "llama_new_context_with_model: KV self size  = 9760.00 MiB, K (f16): 5856.00 MiB, V (f16):"
        " 3904.00 MiB",
    )

    assert 5856 * MIB == 61 * 128 * 192 * 2 * 2048
    assert verdicts(result) == {
        (item, ""): "ok" for item in ("kv_cache", "kv_key", "kv_value")
    }  # fmt: skip


def test_a_latent_of_a_slots_context(checked: Check) -> None:
    """ikawrakow/ik_llama.cpp#259: 61 layers of 576 q8_0 elements, 34 bytes in 32: 612 B a cell."""
    result = checked(
        "deepseek-r1",
        "llama_new_context_with_model: KV self size  = 1166.62 MiB, c^KV (q8_0): 1166.62 MiB, "
        "kv^T: not used",
        'INFO [ init] new slot | tid="13" timestamp=17 id_slot=0 n_ctx_slot=32768',
    )  # fmt: skip

    assert 1166.625 * MIB == 61 * 612 * 32_768
    assert verdicts(result) == {("kv_cache", ""): "ok", ("kv_latent", ""): "ok"}


@pytest.mark.parametrize(
    ("model", "n_ctx", "estimate"),
    [
        # ollama/ollama#12000. 8 layers keep 8,192 tokens, 40 keep 1,024 + 512: 8 KiB each.
        ("gemma-3-12b", 8192, f"{8 * 8192 * 8 / 1024 + 40 * 1536 * 8 / 1024:.1f} MiB"),
        # ollama/ollama#11982: windows of 128 are taken as 4,096; 2 KiB each.
        ("gpt-oss-120b", 75_000, "2.7 GiB"),
    ],
)
def test_ollamas_estimate_of_windows(checked: Check, model: str, n_ctx: int, estimate: str) -> None:
    result = checked(
        model,
        "time=2025-08-22T17:36:22.027-04:00 level=INFO source=server.go:175 msg=offload "
        f'library=cuda layers.model=49 layers.offload=48 memory.required.kv="{estimate}"',
        'time=2025-08-22T17:36:22.176-04:00 level=INFO source=server.go:438 msg="starting llama '
        f'server" cmd="/usr/bin/ollama runner --ollama-engine --ctx-size {n_ctx} --batch-size 512"',
    )

    assert verdicts(result) == {("estimated_kv", ""): "ok"}


def test_one_of_two_pools(checked: Check) -> None:
    """sgl-project/sglang#18039, MiMo-V2-Flash on four ranks, cut after the window layers' pool.

    39 layers of 2 heads: K 192 and V 128 elements of 2 bytes, for 300,288 tokens and a page of 64.
    """
    result = checked(
        "mimo-v2-flash",
        "[2026-01-31 13:50:39 TP3] Use sliding window memory pool. full_layer_tokens=375360, "
        "swa_layer_tokens=300288",
        "[2026-01-31 13:50:39 TP3] KV Cache is allocated. #tokens: 300288, K size: 8.38 GB, V size:"
        " 5.59 GB",
        tp=4,
    )

    assert round(39 * 2 * 192 * 2 * (300_288 + 64) / GIB, 2) == 8.38
    assert round(39 * 2 * 128 * 2 * (300_288 + 64) / GIB, 2) == 5.59
    assert verdicts(result) == {("kv_key", ""): "ok", ("kv_value", ""): "ok"}


def test_lmdeploys_blocks_of_quantised_windows(checked: Check) -> None:
    """InternLM/lmdeploy#3950, gpt-oss-20b at quant_policy 4: every layer keeps every token.

    64 tokens · 24 layers · 8 heads · 2 · (64 / 2 + 4) bytes = 864 KiB.
    """
    result = checked(
        "gpt-oss-20b",
        "[TM][INFO] [BlockManager] block_size = 0.844 MB",
        "[TM][INFO] [BlockManager] max_block_count = 1740",
        "backend_config=TurbomindEngineConfig(tp=1, session_len=131072, quant_policy=4)",
    )

    assert 64 * 24 * 8 * 2 * (64 // 2 + 4) == 864 * 1024
    assert verdicts(result)["block_bytes", ""] == "ok"


def test_blocks_of_a_share_of_what_is_free(checked: Check) -> None:
    """NVIDIA/TensorRT-LLM#2268: 0.9 · 21.89 GiB over 64 tokens · 512 KiB are 630.4 blocks."""
    result = checked(
        None,
        "[TensorRT-LLM][INFO] Engine version 0.13.0.dev2024082000 found in the config file",
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: "
        "39.39 GiB, available: 21.89 GiB",
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 631",
        layers=32, kv_heads=32, head_dim=128,
    )  # fmt: skip

    assert verdicts(result) == {("kv_blocks", ""): "ok"}
