"""Several starts, ranks and processes in one log: which figures count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvcalc.logs.reader import read_log

if TYPE_CHECKING:
    from tests.logs.conftest import Read

DATA = Path(__file__).parents[1] / "data" / "logs"


def vllm(version: str, pool: float, tokens: int, engines: int = 1) -> list[str]:
    """One start of vLLM with so many data-parallel engines."""
    lines = [f"(APIServer pid=1) INFO [api_server.py:1] vLLM API server version {version}"]
    tags = [f"(EngineCore_DP{n} pid={n + 2})" for n in range(engines)]
    lines += [
        f"{tag} INFO [core.py:1] Initializing a V1 LLM engine (v{version}) with config: "
        f"model='Qwen/Qwen3-8B', dtype=torch.bfloat16, max_seq_len=8192, data_parallel_size="
        f"{engines}, kv_cache_dtype=auto" for tag in tags
    ]  # fmt: skip
    for n, tag in enumerate(tags):
        lines.append(f"{tag} INFO [gpu_worker.py:1] Available KV cache memory: {pool + n:.2f} GiB")
        lines.append(f"{tag} INFO [utils.py:1] GPU KV cache size: {tokens + n:,} tokens")
    return lines


def test_the_last_start_counts(read: Read) -> None:
    log = read(*vllm("0.11.0", 9, 1000), "INFO: Shutting down", *vllm("0.12.0", 7.5, 2000))

    assert (log.starts, log.version) == (2, "0.12.0")
    assert [f.value for f in log.all("kv_tokens")] == [2000]
    # The first start has 4 lines, then one, then the second's: its tokens are line 9.
    assert log.all("kv_tokens")[0].line == 9


def test_a_start_without_figures_does_not_hide_the_one_before(read: Read) -> None:
    log = read(*vllm("0.11.0", 9, 1000), *vllm("0.12.0", 7.5, 2000)[:2])

    assert log.earlier
    assert log.version == "0.11.0"
    assert [f.value for f in log.all("kv_tokens")] == [1000]


def test_engines_of_one_start_are_no_starts(read: Read) -> None:
    log = read(*vllm("0.12.0", 7, 2000, engines=4))

    assert log.starts == 1
    assert {f.rank for f in log.all("kv_tokens")} == {"DP0", "DP1", "DP2", "DP3"}
    smallest = log.smallest("kv_tokens")
    assert smallest is not None
    assert (smallest.value, smallest.rank) == (2000, "DP0")


def test_a_thousand_restarts_are_counted_and_the_last_is_told(read: Read) -> None:
    """A server that dies and is restarted forever: 4 lines a start."""
    lines = [line for n in range(3000) for line in vllm("0.12.0", 5, 1000 + n)]
    log = read(*lines)

    assert log.lines == len(lines) == 12_000
    assert log.starts >= 1000
    assert [f.value for f in log.all("kv_tokens")] == [3999]
    assert log.all("kv_tokens")[0].line == 12_000


def test_a_draft_model_belongs_to_the_start(read: Read) -> None:
    """llama-server loads the target, then the draft: two caches, one start, the first settings."""
    target = DATA.joinpath("llama.cpp-2026-02.log").read_text("utf-8").splitlines()
    draft = DATA.joinpath("llama.cpp-2024-01.log").read_text("utf-8").splitlines()[1:]
    log = read(*target, "srv    load_model: loading draft model '/models/draft.gguf'", *draft)

    assert log.starts == 1
    assert log.model == "Tiny Qwen3Next F16"
    assert [f.note for f in log.all("kv_cache")] == ["", "draft"]
    assert log.settings["n_ctx"] == 8192


def test_ranks_by_their_tags(read: Read) -> None:
    tags = {
        "(VllmWorkerProcess pid=535) ": "pid 535", "(VllmWorker rank=3 pid=9) ": "rank 3",
        "(VllmWorker TP1 pid=9) ": "TP1", "(Worker_TP7 pid=9) ": "TP7",
        "(Worker_DP1_TP0_EP2 pid=9) ": "DP1 TP0 EP2", "(Worker_PP1 pid=9) ": "PP1",
        "(RayWorkerWrapper pid=9, ip=192.0.2.7) ": "pid 9 at 192.0.2.7",
        "(EngineCore_0 pid=9) ": "DP0", "(EngineCore_DP3 pid=9) ": "DP3",
        "(EngineCore pid=9) ": "", "": "", "[rank2]: ": "rank 2",
        "[2025-09-11 10:24:20 TP0] ": "TP0", "[2025-11-04 05:27:13 DP1 TP2 EP0] ": "DP1 TP2 EP0",
        "[10:24:20 TP3] ": "TP3", "[gpu_id=4] ": "gpu 4", "[2025-09-11 10:24:20] ": "",
        "[12/20/2025-03:40:47] [TRT-LLM AUTO-DEPLOY] [RANK 1] [I] ": "rank 1",
        "(VllmWorkerProcess pid=536) (VllmWorkerProcess pid=532) ": "pid 532",
    }  # fmt: skip
    for tag, label in tags.items():
        fact = read(f"{tag}INFO Model loading took 3.5 GiB and 1.0 seconds").last("weights")
        assert fact is not None
        assert fact.rank == label, tag


def test_interleaved_ranks_are_told_apart() -> None:
    """Eight processes, lines glued together: seven with a tag, the driver without."""
    log = read_log(str(DATA / "vllm-0.6.6-01.log"))

    assert log.ranks == 8
    assert len(log.by_rank("weights")) == 8
    assert log.settings["tensor_parallel_size"] == 8
    assert log.inferred == {"tensor_parallel_size": "8 processes printed their figures"}


def test_the_smallest_rank_decides(read: Read) -> None:
    pools = {"TP0": 7.41, "TP1": 7.29, "TP2": 7.44}
    log = read(*(
        f"(Worker_{rank} pid=1) INFO [gpu_worker.py:1] Available KV cache memory: {gib} GiB"
        for rank, gib in pools.items()
    ))  # fmt: skip

    pool = log.smallest("kv_pool")
    assert pool is not None
    assert pool.rank == "TP1"


def test_lines_that_a_terminal_broke(read: Read) -> None:
    """At a blank, inside a word, inside a number; what is whole is not joined to what follows."""
    log = read(
        "(EngineCore pid=9) INFO 03-12 10:00:00 [gpu_worker.py:1] Model loading took 13.70",
        "25 GiB memory and 4.05 seconds",
        "(EngineCore pid=9) INFO 03-12 10:00:00 [gpu_worker.py:1] Available KV ca",
        "che memory: 21.09 GiB",
        "(EngineCore pid=9) INFO 03-12 10:00:00 [utils.py:1307] GPU KV cache size:",
        "460,688 tokens",
        "(EngineCore pid=9) INFO 03-12 10:00:00 [utils.py:1312] Maximum concurrency for 24,0",
        "00 tokens per request: 35.18x",
    )

    values = {f.item: f.value for f in log.facts}
    assert values["kv_tokens"] == 460_688
    assert values["max_concurrency"] == 35.18
    assert values["weights"] == round(13.7025 * 2**30)
    assert values["kv_pool"] == round(21.09 * 2**30)
    assert log.settings["max_model_len"] == 24_000
    assert len(log.facts) == 4


def test_a_cut_log_gives_what_it_holds(read: Read) -> None:
    """Every head of a log is read, and says nothing that the whole does not."""
    whole = DATA / "vllm-0.12.0-01.log"
    lines = whole.read_text("utf-8").splitlines()
    found = {f[:6] for f in read_log(str(whole)).facts}

    for cut in range(20, len(lines)):
        assert {f[:6] for f in read(*lines[:cut]).facts} <= found
    tail = read(*lines[-25:])
    assert tail.engine == "vllm"
    assert {f.item for f in tail.facts} >= {"kv_pool", "kv_tokens", "max_concurrency", "graphs"}
