"""What start-up logs of engines beside vLLM printed, against kvcalc given the logged pool.

tests/data/engine_logs.jsonl holds one log a line: the model, the settings the log states, the pool
as printed (± half its last digit) and what the log says of it. A figure counts as equal when it
lies between the results for the ends of the pool, or when ours rounds to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvcalc import resolve
from kvcalc.core.cache import Latent
from kvcalc.core.dtypes import storage
from kvcalc.core.model import Model
from kvcalc.core.plan import Plan
from kvcalc.core.results.base import WeightInfo
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB, MIB
from kvcalc.engines.llamacpp_setup import setup_of
from kvcalc.engines.rules import rules_for
from kvcalc.shape import Shape

DATA = Path(__file__).parents[1] / "data" / "engine_logs.jsonl"
LOGS: dict[str, dict[str, Any]] = {
    log["id"]: log for log in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
}
POOLED = [name for name, log in LOGS.items() if "given" in log]
CONTEXTS = [name for name, log in LOGS.items() if "given" not in log]


def model_of(given: str | list[str]) -> Model:
    """A preset, or groups by numbers; "60*latent:512+64" is latent attention."""
    if isinstance(given, str):
        return resolve.model_of(given)
    count, _, shape = given[0].partition("*latent:")
    if shape:
        rank, _, rope = shape.partition("+")
        cache = Latent(rank=int(rank), rope_dim=int(rope))
        return Model(id="custom", name="custom", layers=((cache,),) * int(count))
    return resolve.model_of(None, Shape(group=given))


def plan_of(log: dict[str, Any], **changes: Any) -> Plan:
    """The log's settings as a plan without a machine."""
    model = model_of(log["model"])
    return Plan(
        model=model,
        storage=storage(log["kv"], v=log.get("v"), model="bf16"),
        parallel=Parallel(**log.get("parallel", {})),
        weights=WeightInfo(None, None, (), "exact"),
        memory=None,
        context=log.get("context") or min(4096, model.max_context_tokens or 4096),
        requests=log.get("requests", 1),
        version=log.get("version"),
        settings=log.get("settings", {}),
        rules=rules_for(log["engine"]),
    )._replace(**changes)


def ends(log: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pool's ends: half the last printed digit below and above."""
    given = log["given"]
    if "tokens" in given:
        yield {"kv_pool_tokens": given["tokens"]}
        return
    unit, size = (GIB, given["gib"]) if "gib" in given else (MIB, given["mib"])
    for end in (-given["half"], given["half"]):
        yield {"kv_pool": round((size + end) * unit)}


def pooled(log: dict[str, Any], pool: dict[str, Any]) -> dict[str, float]:
    """What the engine prints for a pool."""
    plan = plan_of(log, **pool)
    rules: Any = plan.rules
    (rank,) = rules.ranks(plan)
    tokens = rules.rank_tokens(plan, rank)
    found: dict[str, float] = {"tokens": tokens, "blocks": tokens // rules.block_tokens(plan)}
    if log["engine"] == "sglang":
        from kvcalc.engines.sglang import _pools  # noqa: PLC0415 - only SGLang has these pools

        pools = _pools(plan, rank.model)
        found["window_tokens"] = pools.window_tokens(tokens)
        found["states"] = pools.states(rank.pool.best)
        found["max_running_requests"] = pools.running(tokens, plan.context, 10**9)
        found["swa_pool_gib"] = rank.pool.best / GIB
    return found


def contexts(log: dict[str, Any]) -> dict[str, float]:
    """What a context allocates, MiB by the names of the file; windows in cells too."""
    plan = plan_of(log)
    rules: Any = plan.rules
    setup = setup_of(log["engine"], plan)
    slots = setup.n_seq_max or 1
    assert setup.n_ctx is not None
    made = rules.held(setup, plan.model, setup.n_ctx, slots)
    found: dict[str, float] = {"total": made.total_bytes / MIB}
    for item in made.items:
        name = "kv" if item.item == "kv_latent" else item.item
        found[name] = item.bytes / MIB
        if name == "state":
            found["r"], found["s"] = item.key_bytes / MIB, item.value_bytes / MIB
        else:
            found["k"], found["v"] = item.key_bytes / MIB, item.value_bytes / MIB
        if name == "kv_window":
            found["window_cells"] = item.cells
    if any(key.startswith("gpu") for key in log["printed"]):
        given = plan._replace(kv_pool=1)
        for rank in rules.ranks(given):
            size = rules.needed(given, rank, setup.n_ctx // slots, slots)
            found[f"gpu{rank.stage}"] = size / MIB
    return found


@pytest.mark.parametrize("name", POOLED)
def test_a_logged_pool_gives_the_printed_figures(name: str) -> None:
    log = LOGS[name]
    results = [pooled(log, pool) for pool in ends(log)]

    for key, printed in log["printed"].items():
        value, half = printed if isinstance(printed, list) else (printed, 0)
        low, high = (pick(r[key] for r in results) for pick in (min, max))
        assert low - half <= value <= high + half, key


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_allocates_what_is_printed(name: str) -> None:
    log = LOGS[name]
    found = contexts(log)

    for key, (value, half) in log["printed"].items():
        assert found[key] == pytest.approx(value, abs=half + 1e-9), key


def test_a_wrong_model_would_be_noticed() -> None:
    """One KV head more a layer, and no figure of the log is met."""
    log = {**LOGS["sglang-013"], "model": "llama-3.1-8b"}

    low, high = (pooled(log, pool)["tokens"] for pool in ends(log))

    assert not low <= log["printed"]["tokens"] <= high


def test_every_engine_beside_vllm_is_judged_by_logs() -> None:
    assert {log["engine"] for log in LOGS.values()} == {
        "sglang", "tensorrt-llm", "lmdeploy", "llama.cpp", "ik_llama.cpp", "ollama",
    }  # fmt: skip
    assert not any("differs" in log for log in LOGS.values())
