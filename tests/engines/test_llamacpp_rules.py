"""llama.cpp, ik_llama.cpp and Ollama: slots, layers on GPUs, compute buffers, set contexts.

Sizes are worked out by hand or printed by public logs, which the tests name.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc import resolve
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import fit
from kvcalc.core.model import Model
from kvcalc.core.plan import Device, Memory, Plan
from kvcalc.core.results.fit import FitResult, GpuInfo
from kvcalc.core.results.size import EngineItem
from kvcalc.core.shard import Parallel
from kvcalc.core.units import GIB, MIB
from kvcalc.engines.coefficients import coefficients
from kvcalc.engines.llamacpp import context
from kvcalc.engines.llamacpp_compute import compute_bytes, widths
from kvcalc.engines.llamacpp_place import only, parts_of, places
from kvcalc.engines.llamacpp_rates import rates_of
from kvcalc.engines.llamacpp_rules import IK_LLAMA_CPP, LLAMA_CPP, OLLAMA, LlamaCpp
from kvcalc.engines.llamacpp_setup import (
    FEW_OUTPUTS,
    OUTPUT_FIRST,
    WINDOWS,
    build_of,
    setup_of,
)

ADA = Device("rtx4090", "RTX 4090", "NVIDIA", "Ada")


def plan(
    model: str = "llama-3.1-8b", total: float = 23.5, rules: LlamaCpp = LLAMA_CPP, **changes: Any
) -> Plan:
    """A plan on one GPU of `total` GiB, weights in Q4_K_M."""
    found = resolve.model_of(model)
    return Plan(
        model=found, storage=storage(changes.pop("kv", "f16"), v=changes.pop("v", None)),
        parallel=changes.pop("parallel", Parallel()),
        weights=resolve.weights_of(found, changes.pop("weights", "q4_k_m"), None),
        memory=Memory(int(total * GIB)), context=changes.pop("context", 8192), rules=rules,
        device=changes.pop("device", ADA), **changes,
    )  # fmt: skip


def answer(made: Plan) -> FitResult:
    return fit(made, GpuInfo(None, "GPU", made.parallel.gpus, None, "exact"))


def line(made: FitResult, item: str) -> int:
    return next(x.bytes for x in made.budget if x.item == item)


def counts(*args: Any, first: bool = True) -> list[tuple[int, bool]]:
    return [(len(p.layers), p.output) for p in places(*args, first=first)]


def test_two_equal_gpus_share_80_layers_and_the_output_as_41_and_39() -> None:
    """As the log of two RPC hosts: 656 and 624 MiB of 16 MiB a layer."""
    assert counts(80, 2, None, ()) == [(41, False), (39, True)]


def test_of_n_gpu_layers_one_is_the_output_since_2025_12() -> None:
    """42 of 48: until then the last 42 layers, since then the output and 41."""
    assert counts(48, 1, 42, (), first=False) == [(42, False)]
    assert counts(48, 1, 42, (), first=True) == [(41, True)]
    assert counts(48, 1, 0, (), first=True) == [(0, False)]
    assert counts(48, 1, 1000, (), first=True) == [(48, True)]
    assert counts(80, 2, 80, (), first=False) == [(40, False), (40, False)]


def test_shares_split_as_in_the_log_of_four_gpus() -> None:
    """-ngl 27 -ts 17,20,21,45: 45, 45, 54 and 99 MiB of 9 MiB a layer."""
    shares = tuple(map(Fraction, (17, 20, 21, 45)))

    assert [n for n, _ in counts(61, 4, 27, shares, first=False)] == [5, 5, 6, 11]
    with pytest.raises(KvcalcError, match="tensor_split has 4 shares for 2 GPUs"):
        places(61, 2, 27, shares, first=False)


def test_every_layer_is_somewhere_once() -> None:
    for gpus in (1, 2, 3, 5):
        held = [i for p in places(47, gpus, None, (), first=True) for i in p.layers]
        assert held == list(range(47))


def test_weights_on_the_gpu_lack_the_input_embedding() -> None:
    """Logged of Llama-3.1-8B Q4_K_M: 281.81 MiB on the host, 4,403.49 on the GPU."""
    parts = parts_of(plan())

    assert parts is not None
    assert parts.embedding / MIB == pytest.approx(281.81, abs=0.01)
    assert (parts.repeating.best + parts.output) / MIB == pytest.approx(4403.49, abs=0.05)


def test_a_tied_matrix_is_on_the_host_and_on_the_gpu() -> None:
    parts = parts_of(plan("llama-3.2-1b"))

    assert parts is not None
    # Q6_K: 128,256 · 2,048 · 210 / 256 bytes.
    assert parts.embedding == parts.output == 128_256 * 2048 * 210 // 256


#: Model, context, settings, release, MiB of the log, and how near the rule is.
BUFFERS = [
    ("qwen3.6-27b", 131_072, {"n_ctx": 131_072}, "2026-05", 495.0, 0.001),
    ("gemma-3-4b", 131_072, {"n_ctx": 131_072, "n_seq_max": 1}, None, 203.0, 0.001),
    ("llama-3.1-70b", 4096, {"n_ctx": 4096, "flash_attn": False}, "2025-08", 588.0, 0.03),
    ("llama-3.1-8b", 8192, {"n_ctx": 8192, "flash_attn": False}, "2024-12", 560.0, 0.03),
    ("glm-4-9b", 32_768, {"n_ctx": 32_768}, "2026-02", 304.0, 0.001),
]


@pytest.mark.parametrize(("model", "cells", "settings", "version", "logged", "near"), BUFFERS)
def test_compute_buffers_are_near_those_of_logs(
    model: str,
    cells: int,
    settings: dict[str, Any],
    version: str | None,
    logged: float,
    near: float,
) -> None:
    made = plan(model, 191.98, context=cells, settings=settings, version=version)
    setup = setup_of("llama.cpp", made)

    found = LLAMA_CPP._compute(made, setup, cells)
    assert found.best / MIB == pytest.approx(logged, rel=near)
    assert found.low <= logged * MIB <= found.high


def test_the_mask_grows_with_the_context_and_so_does_what_is_needed() -> None:
    """512 tokens · 2 bytes a cell: 1 KiB for each cell beyond the plan's."""
    made = plan(context=8192)
    rank = LLAMA_CPP.ranks(made)[0]

    alone = 131_072 * 131_072
    assert LLAMA_CPP.needed(made, rank, 131_072, 1) == alone + (131_072 - 8192) * 1024
    assert LLAMA_CPP.needed(made, rank, 8192, 1) == 8192 * 131_072


def test_a_set_context_is_the_pool_and_its_slots_the_requests() -> None:
    """n_ctx 8,192 of two slots: 1 GiB; each has 4,096 cells, unified ones share all."""
    apart = answer(plan(settings={"n_ctx": 8192, "n_seq_max": 2}, context=4096))
    unified = answer(
        plan(settings={"n_ctx": 8192, "n_seq_max": 2, "kv_unified": True}, context=8192)
    )

    assert (apart.kv_pool_bytes, unified.kv_pool_bytes) == (GIB, GIB)
    assert (apart.kv_pool_tokens, apart.max_requests, apart.max_context_tokens) == (8192, 2, 4096)
    assert (unified.max_requests, unified.max_context_tokens) == (1, 8192)
    assert sum(x.bytes for x in apart.budget[:-1]) == GIB
    longer = answer(plan(settings={"n_ctx": 8192, "n_seq_max": 2}, context=8192))
    assert not longer.fits
    assert longer.shortfall_bytes == GIB


def test_slots_are_padded_apart() -> None:
    """163,840 over 6 slots: 27,306 cells padded to 27,392 each, 164,352 in all."""
    made = plan(settings={"n_ctx": 163_840, "n_seq_max": 6}, context=27_392, total=191.98)

    found = answer(made._replace(allow_long=True))
    assert found.kv_pool_tokens == 164_352
    assert found.max_requests == 6
    assert found.max_context_tokens == 27_392
    assert "padding" in [limit.code for limit in found.limits]


def test_layers_on_the_host_take_nothing_of_the_gpu() -> None:
    """42 of 48 layers of 2 · 1,024 · 34 / 32 bytes a token, 32,768 tokens."""
    made = plan("qwen2.5-14b", 10, kv="q8_0", weights="q5_k_m", context=32_768,
                version="2025-11", settings={"n_gpu_layers": 42})  # fmt: skip
    found = answer(made)

    assert found.bytes_per_request == 42 * 2 * 1088 * 32_768
    assert found.ranks[0].layers == 42
    assert "6 layers and their caches are in host memory" in found.limits[0].message
    host = answer(made._replace(settings={"no_kv_offload": True, "n_gpu_layers": 42}))
    assert host.bytes_per_request == 0
    assert host.max_requests == 256


def test_fit_keeps_a_gibibyte_free_unless_the_layers_are_set() -> None:
    assert line(answer(plan()), "margin") == -GIB
    assert line(answer(plan(settings={"fit_target": 256 * MIB})), "margin") == -256 * MIB
    for settings in ({"fit": False}, {"n_gpu_layers": 33}):
        items = [x.item for x in answer(plan(settings=settings)).budget]
        assert "margin" not in items


def test_ollama_multiplies_num_ctx_by_num_parallel() -> None:
    """4 · 4,096 tokens of 196,608 bytes are 3 GiB, and 457 MiB stay free."""
    made = plan("qwen2.5-14b", rules=OLLAMA, context=4096,
                settings={"num_ctx": 4096, "num_parallel": 4})  # fmt: skip
    found = answer(made)

    assert found.kv_pool_bytes == 3 * GIB
    assert (found.kv_pool_tokens, found.max_requests) == (16_384, 4)
    assert line(found, "other") == -457 * MIB
    command = OLLAMA.command(made._replace(settings={**made.settings, "kv_cache_type": "q8_0"}))
    assert command == (
        "OLLAMA_CONTEXT_LENGTH=4096 OLLAMA_NUM_PARALLEL=4 OLLAMA_FLASH_ATTENTION=1 "
        "OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve"
    )
    mac = answer(made._replace(device=Device("m4", "Apple M4", "Apple", unified_memory=True)))
    assert line(mac, "other") == -512 * MIB


def test_ik_keeps_latents_as_mla_says() -> None:
    """DeepSeek-V3, 16,384 tokens: 1,098 MiB of latents, 976 more of V without flash attention."""
    sizes = [
        answer(plan("deepseek-v3", 900, IK_LLAMA_CPP, context=16_384, settings=settings))
        for settings in (
            {"mla_attn": "3"},
            {"mla_attn": "1", "flash_attn": False},
            {"mla_attn": "0"},
        )
    ]

    expanded = 61 * 40_960 * 2 * 16_384 / MIB
    assert [s.bytes_per_request / MIB for s in sizes] == [1098, 2074, expanded]
    assert [limit.code for limit in sizes[0].limits][:1] == ["no_values"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"kv": "fp8"}, "unknown_dtype"),
    ({"v": "q8_0", "settings": {"flash_attn": False}}, "usage"),
    ({"parallel": Parallel(tp=2, dcp=2)}, "usage"),
    ({"model": "deepseek-v3", "v": "q8_0"}, "usage"),
    ({"version": "last week"}, "unknown_setting"),
    ({"rules": OLLAMA, "version": "new"}, "unknown_setting"),
    ({"rules": IK_LLAMA_CPP, "model": "deepseek-v4-flash"}, "unsupported_architecture"),
    ({"rules": IK_LLAMA_CPP, "kv": "fp8"}, "unknown_dtype"),
]


@pytest.mark.parametrize(("changes", "code"), REFUSED)
def test_what_they_refuse_they_name(changes: dict[str, Any], code: str) -> None:
    made = plan(**changes)

    with pytest.raises(KvcalcError) as caught:
        made.rules.ranks(made)  # type: ignore[union-attr]
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("version", "build"),
    [("b7500", 7500), ("9480", 9480), ("2025-04", 0), ("2025-05", WINDOWS),
     ("2025-12", OUTPUT_FIRST), ("2026-11", FEW_OUTPUTS), ("0c1e57098", 10**6), (None, 10**6)],
)  # fmt: skip
def test_builds_are_read_by_number_month_or_commit(version: str | None, build: int) -> None:
    assert build_of(version) == build


def test_old_builds_keep_windows_whole() -> None:
    new, old = (
        LLAMA_CPP.items(plan("gemma-3-4b", context=32_768, version=v)) for v in (None, "2025-04")
    )

    assert [i.cells for i in new] == [32_768, 1536]
    assert [i.cells for i in old] == [32_768, 32_768]


def test_the_command_starts_that_context() -> None:
    made = plan(requests=3, kv="q8_0", settings={"n_ubatch": 256, "kv_unified": True})

    assert LLAMA_CPP.command(made) == (
        "llama-server -m llama-3.1-8b-q4_k_m.gguf -c 24576 -np 3 -ctk q8_0 -ctv q8_0 -kvu -ub 256"
    )
    whole = str(LLAMA_CPP.command(plan(settings={"fit": False})))
    assert whole.endswith("-c 8192 -np 1 -ngl 33 -fit off")


def test_changes_are_its_own_settings_and_each_can_be_computed() -> None:
    for rules in (LLAMA_CPP, IK_LLAMA_CPP, OLLAMA):
        found = rules.changes(plan(rules=rules))
        assert found[0].argument == "--kv-dtype q8_0"
        assert all(rules.ranks(change.plan) for change in found)


MODELS = ["llama-3.1-8b", "gemma-3-4b", "gpt-oss-20b", "qwen3.6-27b", "deepseek-v3",
          "deepseek-v4-flash", "gemma-4-e4b", "exaone-4.0-32b", "llama-4-scout-17b-16e",
          "glm-5.2"]  # fmt: skip


@given(
    model=st.sampled_from(MODELS),
    n_ctx=st.integers(1, 200_000),
    slots=st.integers(1, 8),
    unified=st.booleans(),
    swa_full=st.booleans(),
    ubatch=st.sampled_from([32, 512, 2048]),
    split=st.integers(0, 3),
)
def test_rates_are_those_of_the_context(
    model: str, n_ctx: int, slots: int, unified: bool, swa_full: bool, ubatch: int, split: int
) -> None:
    found = resolve.model_of(model)
    settings = {"kv_unified": unified, "swa_full": swa_full, "n_ubatch": ubatch}
    made = plan(model, settings=settings)
    setup = setup_of("llama.cpp", made)
    layers = tuple(range(len(found.layers)))[split :: split + 1]

    def probe(part: Model, cells: int, sequences: int) -> tuple[EngineItem, ...]:
        return LLAMA_CPP.held(setup, part, cells, sequences).items

    rates = rates_of(found, layers, setup, probe)
    whole = context(
        only(found, layers), n_ctx=n_ctx, n_seq_max=slots, kv_unified=unified, swa_full=swa_full,
        n_ubatch=ubatch,
    )  # fmt: skip
    assert rates.bytes(n_ctx, slots) == whole.total_bytes


@given(
    model=st.sampled_from(["llama-3.1-8b", "gemma-3-4b", "qwen3.6-27b"]),
    tokens=st.integers(1, 32_000),
    requests=st.integers(1, 40),
    unified=st.booleans(),
    rules=st.sampled_from([LLAMA_CPP, OLLAMA, IK_LLAMA_CPP]),
)
def test_what_is_needed_is_enough(
    model: str, tokens: int, requests: int, unified: bool, rules: LlamaCpp
) -> None:
    settings = {"kv_unified": unified} if rules is LLAMA_CPP else {}
    made = plan(model, kv_pool=MIB, rules=rules, settings=settings)
    rank = rules.ranks(made)[0]
    needed = rules.needed(made, rank, tokens, requests)

    assert rules.requests(made, rank, needed, tokens) >= requests
    assert rules.requests(made, rank, needed - 1, tokens) < max(requests, 2)


def test_widths_give_the_feed_forward_width_of_a_dense_model() -> None:
    """Llama-3.1-8B: u · 4 · (3 · 14,336 + 3 · 4,096) + mask at 2,048 cells = 110 MiB."""
    made = plan()
    found = compute_bytes(
        made, widths(made), n_ctx=2048, ubatch=512, outputs=1, flash=True,
        coefficients=coefficients("llama.cpp"),
    )  # fmt: skip

    assert found.best == pytest.approx(512 * 4 * (3 * 14_336 + 3 * 4096) + 512 * 2048 * 2, rel=1e-3)
