"""kvcalc.check: a log's figures beside kvcalc's, what is off and why, what was assumed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
import tomli

from kvcalc.api.check import check
from kvcalc.api.check_setup import known_settings
from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.check import CheckResult, CheckRow
from kvcalc.engines.coefficients import coefficients
from kvcalc.logs.reader import read_log

GIB, MIB = 2**30, 2**20
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes lines as a log and gives its path."""

    def made(*lines: str) -> str:
        path = tmp_path / "server.log"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return str(path)

    return made


def row(result: CheckResult, item: str, device: str = "") -> CheckRow:
    """The row of that figure."""
    return next(r for r in result.rows if (r.item, r.device) == (item, device))


def vllm(pool: float = 6.95, tokens: int = 56_880, times: float = 1.79) -> list[str]:
    """vLLM 0.12.0 with Llama-3.1-8B on an RTX 3090, as a public log printed it."""
    return [
        "(APIServer pid=1) INFO 12-10 [api_server.py:1772] vLLM API server version 0.12.0",
        (
            "(APIServer pid=1) INFO 12-10 [utils.py:253] non-default args: {'model_tag': "
            "'meta-llama/Meta-Llama-3.1-8B-Instruct', 'max_model_len': 31800, 'max_num_seqs': 64, "
            "'gpu_memory_utilization': 0.95}"
        ),
        (
            "(APIServer pid=1) INFO [scheduler.py:228] Chunked prefill is enabled with "
            "max_num_batched_tokens=2048."
        ),
        "(EngineCore_DP0 pid=2) INFO Model loading took 14.9889 GiB memory and 4.05 seconds",
        f"(EngineCore_DP0 pid=2) INFO Available KV cache memory: {pool} GiB",
        f"(EngineCore_DP0 pid=2) INFO GPU KV cache size: {tokens:,} tokens",
        (
            "(EngineCore_DP0 pid=2) INFO Maximum concurrency for 31,800 tokens per request: "
            f"{times:.2f}x"
        ),
        "(EngineCore_DP0 pid=2) INFO Graph capturing finished in 3 secs, took 0.21 GiB",
    ]


def test_every_figure_beside_kvcalcs(write: Write) -> None:
    """A token is 2 · 32 layers · 8 heads · 128 · 2 bytes = 128 KiB, a block of 16 is 2 MiB.

    6.945 to 6.955 GiB are 3,555 to 3,560 blocks: 56,880 to 56,960 tokens, 1.79 × 31,800.
    """
    result = check(write(*vllm()), gpu="rtx3090")

    assert (result.engine, result.version, result.yes) == ("vllm", "0.12.0", True)
    assert result.model is not None
    assert result.model.id == "llama-3.1-8b"
    assert (result.weights, result.gpu, result.gpus) == ("bf16", "rtx3090", 1)
    found = row(result, "kv_tokens")
    assert (found.verdict, found.low, found.high) == ("ok", 3555 * 16, 3560 * 16)
    assert "Blocks of 16 tokens, 2\u00a0MiB each" in found.explanation
    pool = row(result, "kv_pool")
    assert pool.verdict == "ok"
    assert pool.measured == round(6.95 * GIB)
    assert pool.low is not None
    assert pool.high is not None
    assert pool.low < pool.measured < pool.high
    assert "budget − 14.99 weights − 0.41 activations" in pool.explanation
    assert row(result, "weights").verdict == "ok"
    many = row(result, "max_concurrency")
    assert (many.measured, many.verdict, many.unit) == (1.79, "ok", "×")
    assert "not slots: max_num_seqs allows 64" in many.explanation
    graphs = row(result, "graphs")
    assert (graphs.predicted, graphs.verdict) == (None, "not comparable")
    assert "not charged" in graphs.explanation
    assert [a.name for a in result.assumed] == ["memory"]
    assert result.settings["max_num_batched_tokens"] == 2048


def test_without_the_gpu_the_pool_is_not_predicted_and_why_is_said(write: Write) -> None:
    result = check(write(*vllm()))

    assert row(result, "kv_pool").predicted is None
    assert row(result, "weights").verdict == "ok"
    assert [w.code for w in result.warnings] == ["no_prediction"]
    assert "--gpu" in result.warnings[0].message


def test_what_is_off_makes_the_answer_no(write: Write) -> None:
    """3 GiB of the pool are gone: 1,535 blocks less, and the engine counts its tokens right."""
    result = check(write(*vllm(pool=3.95, tokens=32_352, times=1.02)), gpu="rtx3090")

    assert not result.yes
    assert row(result, "kv_pool").verdict == "off"
    assert "another process on this GPU?" in row(result, "kv_pool").explanation
    assert row(result, "kv_tokens").verdict == "ok"


def test_another_model_is_off(write: Write) -> None:
    """Qwen3-8B has 36 layers: 2.25 MiB a block, so 3,160 blocks are 50,560 tokens."""
    result = check(write(*vllm()), "qwen3-8b")

    found = row(result, "kv_tokens")
    assert (found.verdict, found.predicted) == ("off", int(6.95 * GIB) // (36 * 65_536) * 16)
    assert found.error_fraction == pytest.approx(50_608 / 56_880 - 1, abs=1e-3)
    assert "is it this model" in row(result, "weights").explanation


def test_options_win_over_the_log(write: Write) -> None:
    """fp8 halves a block, and two ranks halve it again: four times the tokens."""
    result = check(write(*vllm()), kv_dtype="fp8", tp=2)

    found = row(result, "kv_tokens")
    assert found.predicted == int(6.95 * GIB) // (MIB // 2) * 16


def test_an_unknown_release_is_the_newest_that_fits_and_is_named(write: Write) -> None:
    """Gemma-3-27B, 52 of 62 layers with a window: old releases print blocks · 16 / 7 groups."""
    log = write(
        "INFO non-default args: {'model': 'google/gemma-3-27b-it', 'max_model_len': 4096}",
        "INFO Available KV cache memory: 109.86 GiB",
        "INFO GPU KV cache size: 205,696 tokens",
        "INFO Maximum concurrency for 4096 tokens per request: 50.05x",
    )
    result = check(log)

    assert row(result, "kv_tokens").verdict == row(result, "max_concurrency").verdict == "ok"
    assumed = {a.name: a for a in result.assumed}
    assert assumed["version"].value < "0.20.1"
    assert assumed["version"].why == "the newest release that fits"
    assert result.model is not None
    assert result.model.id == "gemma-3-27b"


def test_a_refusal_is_computed_too(write: Write) -> None:
    """32 GiB for one request of 262,144 tokens at 128 KiB; 6.95 GiB hold 3,558 blocks of 16."""
    log = write(
        *vllm()[:2],
        "ValueError: To serve at least one request with the models's max seq len (262144), (32.0 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (6.95 GiB). "
        "Based on the available memory, the estimated maximum model length is 56928. Try",
        "(EngineCore_DP0 pid=2) ERROR EngineCore failed to start.",
    )
    result = check(log)

    needed, longest = row(result, "needed"), row(result, "longest")
    assert (needed.verdict, needed.predicted) == ("ok", 32 * GIB)
    assert (longest.verdict, longest.measured) == ("ok", 56_928)
    assert result.yes
    told = result.refusals[0]
    assert (told.code, told.longest_tokens) == ("too_long", 56_928)
    assert (told.needed_bytes, told.max_model_len_tokens) == (32 * GIB, 262_144)


def test_the_smallest_rank_decides_and_it_is_said(write: Write) -> None:
    pools = (7.41, 7.29)
    lines = [f"(Worker_TP{n} pid=1) INFO Available KV cache memory: {g} GiB"
             for n, g in enumerate(pools)]  # fmt: skip
    result = check(write(*vllm()[:4], *lines), tp=2)

    pool = row(result, "kv_pool")
    assert (pool.measured, pool.rank) == (round(7.29 * GIB), "TP1")
    assert "The 2 ranks have 7.29 to 7.41 GiB; the smallest decides for all." in pool.explanation


def test_a_log_that_names_no_model_takes_one_or_its_numbers(write: Write) -> None:
    log = write(*vllm()[4:6])

    assert row(check(log), "kv_tokens").predicted is None
    assert "MODEL" in check(log).warnings[0].message
    numbers = check(log, layers=32, kv_heads=8, head_dim=128, context=31_800)
    assert row(numbers, "kv_tokens").verdict == "ok"
    with pytest.raises(KvcalcError) as told:
        check(log, "no-such-model")
    assert told.value.code == "unknown_model"


def test_sglangs_rule_of_what_is_left(write: Write) -> None:
    """6.09 free after the load − 21.63 before it · (1 − 0.85) = 2.846 GiB; the log has 2.84.

    K of 46,611 tokens and a spare: 64 layers · 2 of 8 heads · 128 · 2 bytes = 1.4224 GiB.
    """
    result = check(write(
        "[2025-03-01 00:00:00] server_args=ServerArgs(model_path='Qwen/QwQ-32B', tp_size=4, "
        "mem_fraction_static=0.85, kv_cache_dtype='auto', context_length=None)",
        "[2025-03-01 00:00:00 TP0] Load weight begin. avail mem=21.63 GB",
        "[2025-03-01 00:00:00 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, "
        "avail mem=6.09 GB, mem usage=15.54 GB.",
        "[2025-03-01 00:00:00 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, "
        "V size: 1.42 GB",
    ))  # fmt: skip

    assert row(result, "kv_key").predicted == 46_612 * 64 * 2 * 128 * 2
    pools = row(result, "pools")
    assert (pools.verdict, pools.measured) == ("ok", 2 * round(1.42 * GIB))
    assert pools.predicted == pytest.approx(2.8455 * GIB, rel=1e-3)
    assert result.yes


def test_tensorrt_llms_blocks_and_its_share_of_what_is_free(write: Write) -> None:
    """8,219 blocks of 32 tokens; 0.9 of 17.83 GiB; a token of Llama-3.1-8B is 128 KiB in bf16.

    263,008 tokens at 64 KiB (fp8) are 16.052 GiB.
    """
    result = check(write(
        "[TensorRT-LLM] TensorRT-LLM version: 0.18.0",
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: "
        "31.84 GiB, available: 17.83 GiB",
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 8219",
        "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache"
        " (263008)",
    ), "llama-3.1-8b", kv_dtype="fp8")  # fmt: skip

    assert row(result, "kv_tokens").verdict == "ok"
    assert row(result, "kv_pool").predicted == 263_008 * 65_536
    assert result.yes


def test_lmdeploys_blocks(write: Write) -> None:
    """64 tokens of Qwen3-8B: 64 · 144 KiB = 9 MiB, of which 863 are 55,232 tokens."""
    result = check(write(
        "[TM][INFO] [BlockManager] block_size = 9 MB",
        "[TM][INFO] [BlockManager] max_block_count = 863",
    ), "qwen3-8b")  # fmt: skip

    assert row(result, "block_bytes").predicted == 9 * MIB
    assert row(result, "block_bytes").verdict == "ok"


def test_measured_overheads_become_a_profile_that_gives_the_logs_pool(
    write: Write, tmp_path: Path
) -> None:
    """kvcalc's pool minus the log's goes into the memory outside PyTorch."""
    result = check(write(*vllm()), gpu="rtx3090")
    folder = tmp_path / "engines"
    folder.mkdir()
    (folder / "vllm.toml").write_text(result.profile, "utf-8")

    pool = row(result, "kv_pool")
    assert pool.predicted is not None
    kept = coefficients("vllm", (str(tmp_path),))["non_torch"]
    shipped = coefficients("vllm")["non_torch"]
    apart = Fraction(int(pool.predicted - pool.measured), GIB)
    assert kept.basis == "measured"
    assert kept.value == pytest.approx(shipped.value + float(apart), abs=1e-5)
    assert kept.low < kept.value < kept.high
    table = tomli.loads(result.profile)["coefficients"]["non_torch"]
    assert "line 5" in table["evidence"]
    assert "vllm 0.12.0" in table["sources"][0]


def test_no_profile_without_a_prediction(write: Write) -> None:
    assert check(write(*vllm()[4:])).profile == ""


def test_json_has_the_contracts_fields(write: Write) -> None:
    data = check(write(*vllm()), gpu="rtx3090").to_dict()

    assert {"engine", "version", "settings", "rows"} <= data.keys()
    assert not {"profile", "warnings"} & data.keys()
    for found in data["rows"]:
        assert {"item", "measured", "predicted", "error_fraction", "verdict", "explanation"} <= (
            found.keys()
        )
        assert found["verdict"] in {"ok", "off", "not comparable"}
        if found["unit"] != "×":
            assert isinstance(found["measured"], int)


@pytest.mark.parametrize("setting", ["max_num_seq", "n_ctx"])
def test_settings_of_another_engine_are_refused(write: Write, setting: str) -> None:
    with pytest.raises(KvcalcError) as told:
        check(write(*vllm()), set={setting: "5"})
    assert told.value.code == "unknown_setting"


def test_lines_that_one_release_prints_apart(write: Write) -> None:
    """A build that breaks the memory line into sentences, each with a level of its own."""
    path = write(
        "INFO  Initializing a V1 LLM engine (v0.26.0) with config: model='/models/qwen3'",
        "INFO  Free memory on device (22.6/24.0 GiB) on startup.",
        "INFO  Desired GPU memory utilization is (0.7, 16.8 GiB).",
        "INFO  Actual usage is 10.7 GiB for consumed memory (weights + non-torch), 1.54 GiB for "
        "peak activation, and 0.54 GiB for CUDAGraph memory.",
    )
    log = read_log(path)
    found = {f.item: f.value / 2**30 for f in log.facts}
    assert found == pytest.approx({
        "free_at_start": 22.6, "memory": 24, "usable": 16.8, "consumed": 10.7,
        "activation_and_graphs": 1.54, "graphs": 0.54,
    })  # fmt: skip
    assert log.settings["gpu_memory_utilization"] == 0.7


@pytest.mark.parametrize(
    ("version", "file", "asked"),
    [
        ("0.26.0", "gpu_model_runner", False),
        ("0.26.0", "model_runner", True),
        ("0.12.0", "gpu_model_runner", None),
        ("0.31.0", "model_runner", None),
    ],
)
def test_the_runner_by_its_file(write: Write, version: str, file: str, asked: bool | None) -> None:
    """Between 0.22 and 0.28 a release has two, and budgets differ by the graphs' estimate."""
    path = write(
        f"(EngineCore pid=9) INFO [core.py:1] Initializing a V1 LLM engine (v{version}) with "
        "config: model='Qwen/Qwen3-8B', tensor_parallel_size=1",
        f"(EngineCore pid=9) INFO [{file}.py:407] Model loading took 15.27 GiB and 5 seconds",
    )
    log = read_log(path)
    assert known_settings(log, dict(log.settings)).get("use_v2_model_runner") is asked
