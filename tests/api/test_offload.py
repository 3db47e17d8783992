"""kvcalc.offload, and what its command says."""

from __future__ import annotations

import json

import pytest

import kvcalc
from kvcalc.cli.main import run
from tests.answers import ask

GIB = 2**30


def test_the_function() -> None:
    made = kvcalc.offload("deepseek-v3", tp=8, pool="50GiB", pool_per="rank")
    assert made.pool is not None
    assert made.pool.tokens == 763_989  # 53,687,091,200 // 70,272
    assert made.bytes_per_token == made.bytes_per_token_per_rank == 70_272
    assert made.to_dict()["pool"]["total_bytes"] == 400 * GIB


def test_the_time_to_read_stored_documents() -> None:
    """1,000 documents of 60,000 tokens at 131,072 B: 7,864,320,000 B each, 0.98304 s at 8 GB/s."""
    made = kvcalc.offload(
        "llama-3.1-8b", context=60_000, requests=1000, bandwidth="64Gb/s"
    ).contexts[0]
    assert made.bytes_per_session == 7_864_320_000
    assert made.transfer_seconds == pytest.approx(0.98304)
    assert made.total_transfer_seconds == pytest.approx(983.04)


def test_recomputing_is_what_speed_says() -> None:
    """The prefill of `speed`, of the kept tokens alone: 4,096 of 4,200 in chunks of 256."""
    made = kvcalc.offload(
        "llama-3.1-8b", context=4200, chunk_tokens=256, gpu="2xh100", bandwidth="25GB/s"
    )
    first = made.contexts[0]
    least = kvcalc.speed("llama-3.1-8b", gpu="2xh100", prompt=4096).prefill.seconds
    assert first.recompute_seconds == least
    assert made.parallel.tp == 2
    assert first.break_even_bytes_per_second is not None
    assert first.break_even_bytes_per_second * least == pytest.approx(4096 * 131_072)


def test_what_speed_does_not_know_is_null_and_said() -> None:
    made = kvcalc.offload("llama-3.1-8b", gpu="b100")
    assert made.contexts[0].recompute_seconds is None
    assert made.contexts[0].break_even_bytes_per_second is None
    assert made.gpu is None
    assert made.warnings[0].code == "recompute_unknown"
    assert "b100: bandwidth_bytes_per_second" in made.warnings[0].message


def test_lmcache_keeps_chunks_of_256() -> None:
    """763,989 tokens are 2,984 chunks and 85 tokens."""
    made = kvcalc.offload("deepseek-v3", tp=8, set={"max_local_cpu_size": 50})
    assert made.pool is not None
    assert (made.chunk_tokens, made.pool.tokens) == (256, 2984 * 256)


def test_engines_spellings_reach_it() -> None:
    data = ask("offload", "llama-3.1-8b", "-tp", "4", "--hicache_size", "40", "--json").data
    assert data["pool"]["per"] == "rank"
    assert data["pool"]["total_bytes"] == 160 * 10**9
    assert data["pool"]["tokens"] == 1_220_703  # 40 · 10⁹ // 32,768


def test_batch_answers_it(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    line = {"command": "offload", "model": "llama-3.1-8b", "set": {"kv_offloading_size": 100},
            "context": [4096, 8192], "tp": 2}  # fmt: skip
    path = f"{tmp_path}/lines"
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    assert run(["batch", path]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert [c["pool_sessions"] for c in data["contexts"]] == [200, 100]


@pytest.mark.parametrize(("words", "first"), [
    (("llama-3.1-8b", "-c", "32K", "-n", "20", "--pool", "100GiB"),
     "✓ Llama-3.1-8B, 100 GiB: 20 sessions of 32,768 tokens stay; room for 5 more"),
    (("llama-3.1-8b", "-c", "32K", "--pool", "4GiB"),
     "✓ Llama-3.1-8B, 4 GiB: 1 session of 32,768 tokens stays"),
    (("llama-3.1-8b", "-c", "32K", "-n", "26", "--tp", "2", "--max-local-cpu-size", "50"),
     "✗ Llama-3.1-8B, 2 × 50 GiB: 25 of 26 sessions of 32,768 tokens stay"),
    (("llama-3.1-8b", "-c", "32K", "--tp", "2", "--pool", "1GiB", "--pool-per", "rank"),
     "✗ Llama-3.1-8B, 2 × 1 GiB: not one session of 32,768 tokens stays: it takes 2 GiB a rank"),
    (("llama-3.1-8b", "-n", "3", "--kv-dtype", "fp8", "--pool", "1GiB"),
     "✓ Llama-3.1-8B fp8, 1 GiB: 3 sessions of 4,096 tokens stay; room for 1 more"),
    (("llama-3.1-8b", "--pool", "50GiB", "--host-ram", "32GiB"),
     "✗ Llama-3.1-8B, 50 GiB: 50 GiB of the host's 32 GiB"),
    (("opt-13b", "-c", "512", "--rps", "10", "--bandwidth", "25Gb/s", "--pool", "1GiB"),
     "✗ OPT-13B, 1 GiB: 10 requests/s move 4.19 GB/s = 33.6 Gb/s, 134% of the link"),
    (("llama-3.1-8b", "-n", "3", "--tp", "2"),
     "3 sessions of 4,096 tokens take 1.5 GiB outside the GPUs, 512 MiB each."),
    (("llama-3.1-8b",), "1 session of 4,096 tokens takes 512 MiB outside the GPU."),
    (("opt-13b", "-c", "512", "--rps", "10"),
     "10 requests/s of 512 tokens move 4.19 GB/s = 33.6 Gb/s."),
    (("opt-13b", "-c", "512", "--rps", "10", "--bandwidth", "25Gb/s"),
     "✗ OPT-13B, 10/s of 512 tokens: 4.19 GB/s = 33.6 Gb/s, 134% of the link"),
    (("opt-13b", "-c", "512", "--rps", "1", "--bandwidth", "100Gb/s"),
     "✓ OPT-13B, 1/s of 512 tokens: 0.419 GB/s = 3.36 Gb/s, 3.4% of the link"),
    (("llama-3.1-8b", "--rps", "0.002"),
     "0.002 requests/s of 4,096 tokens move 0.001 GB/s = 0.009 Gb/s."),
])  # fmt: skip
def test_the_answer_stands_in_the_first_line(words: tuple[str, ...], first: str) -> None:
    text = ask("offload", *words, "-f", "plain").text
    assert text.splitlines()[0].replace("\u00a0", " ") == first


def test_tokens_of_a_windowed_model_are_those_of_its_sessions() -> None:
    """20 GiB · 8,192 / 1,107,296,256 B of one session are 158,875.6 tokens."""
    text = ask("offload", "gemma-3-27b", "-c", "8K", "--pool", "20GiB", "-f", "plain").text
    assert text.splitlines()[1] == "  The pool holds 158,875 tokens of such sessions."


def test_a_table_of_combinations() -> None:
    """Where a stream and a pool are asked of several models, each has its own row."""
    text = ask(
        "offload", "llama-3.1-8b,gpt-2", "-c", "512", "--pool", "1GiB", "--rps", "2",
        "--bandwidth", "1GB/s", "-f", "plain",
    ).text.splitlines()  # fmt: skip
    assert text[0] == "2 of 2 combinations hold what is asked"
    assert text[2].split()[-1] == "Gb/s"
    assert len([line for line in text if "✓" in line]) == 2
