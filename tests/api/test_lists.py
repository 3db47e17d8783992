"""fit over all GPUs for a model, and over all models for a GPU."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc import KvcalcError
from kvcalc.core.results.catalog import GpuItem, Listing, ModelItem
from kvcalc.core.results.fit import Candidate, FitList, FitResult

GIB = 2**30


@pytest.fixture(autouse=True)
def _shipped_presets_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.delenv("KVCALC_PRESETS", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path))


def listed(model: str | None = None, **options: Any) -> FitList:
    result = kvcalc.fit(model, engine="none", **options)
    assert isinstance(result, FitList)
    return result


def single(model: str, **options: Any) -> FitResult:
    result = kvcalc.fit(model, engine="none", **options)
    assert isinstance(result, FitResult)
    return result


def same(c: Candidate, r: FitResult) -> bool:
    return (c.fits, c.max_requests, c.max_context_tokens, c.kv_pool_bytes) == (
        r.fits, r.max_requests, r.max_context_tokens, r.kv_pool_bytes,
    )  # fmt: skip


def test_each_gpu_stands_with_its_smallest_count_that_fits() -> None:
    """Llama-3.1-70B in bf16 is 131.42 GiB: two H100s hold it, one H200 does."""
    r = listed("llama-3.1-70b")
    by_id = {c.gpu: c for c in r.candidates}

    assert (by_id["h100-sxm"].gpus, by_id["h100-sxm"].fits) == (2, True)
    assert (by_id["h200-sxm"].gpus, by_id["h200-sxm"].fits) == (1, True)
    assert r.context_tokens == 4096
    assert r.yes


def test_every_gpu_of_the_catalog_is_there_once() -> None:
    gpus = kvcalc.gpus()
    assert isinstance(gpus, Listing)
    r = listed("llama-3.1-8b")

    assert sorted(g.id for g in gpus.items if isinstance(g, GpuItem)) == sorted(
        c.gpu or "" for c in r.candidates
    )


def test_candidates_say_what_a_single_question_says() -> None:
    for c in listed("llama-3.1-70b", context="32k", requests=3, kv_dtype="fp8").candidates[::9]:
        one = single(
            "llama-3.1-70b", gpu=c.gpu, gpus=c.gpus, context="32k", requests=3, kv_dtype="fp8"
        )
        assert same(c, one), c.gpu


def test_machines_that_fit_come_first_with_the_least_memory() -> None:
    r = listed("llama-3.1-70b", context="32k")
    fits = [c.fits for c in r.candidates]

    assert sorted(fits, reverse=True) == fits
    steps = [c.memory_bytes // (4 * GIB) for c in r.candidates if c.fits]
    assert sorted(steps) == steps


def test_counts_that_heads_do_not_divide_by_are_left_out_with_the_reason() -> None:
    """Qwen2.5-0.5B has 2 KV heads: 3 GPUs divide them neither way."""
    r = listed("qwen2.5-0.5b", gpus=3)

    assert r.candidates == ()
    assert not r.yes
    assert "--tp 3 neither divides the 2 KV heads" in r.left_out[0].reason
    assert r.left_out[0].name[:4] == "3 × "


@pytest.mark.parametrize(
    ("options", "gpus"), [({"gpus": 4}, 4), ({"tp": 2}, 2), ({"tp": 2, "pp": 2}, 4),
                          ({"pp": 2, "gpus": 8}, 8), ({"dp": 3}, 3)]
)  # fmt: skip
def test_parallelism_that_is_given_is_kept(options: dict[str, Any], gpus: int) -> None:
    r = listed("llama-3.1-70b", **options)

    assert {gpus} == {c.gpus for c in r.candidates}
    assert same(r.candidates[0], single("llama-3.1-70b", gpu=r.candidates[0].gpu, **options))


def test_no_gpu_is_enough_for_an_impossible_load() -> None:
    r = listed("llama-3.1-405b", requests=10**6)

    assert not r.yes
    assert not any(c.fits for c in r.candidates)


def test_models_on_a_gpu() -> None:
    r = listed(gpu="4090")
    by_id = {c.model: c for c in r.candidates}

    assert by_id["llama-3.1-8b"].fits
    assert not by_id["llama-3.1-70b"].fits
    assert r.gpu is not None
    assert r.gpu.id == "rtx4090"
    for name in ("llama-3.1-8b", "llama-3.1-70b", "deepseek-v3", "gpt-2"):
        assert same(by_id[name], single(name, gpu="4090")), name


def test_every_model_is_a_candidate_or_left_out_with_a_reason() -> None:
    models = kvcalc.models()
    assert isinstance(models, Listing)
    r = listed(gpu="8xh100", context="32k")

    names = [c.model for c in r.candidates] + [entry.name for entry in r.left_out]
    assert sorted(m.id for m in models.items if isinstance(m, ModelItem)) == sorted(names)
    assert all(entry.reason for entry in r.left_out)


def test_the_largest_model_that_fits_comes_first() -> None:
    r = listed(gpu="h100")
    fits = [c for c in r.candidates if c.fits]
    sizes = [c.parameters or 0 for c in fits]

    assert r.candidates[: len(fits)] == tuple(fits)
    assert sorted(sizes, reverse=True) == sizes


def test_memory_alone_is_a_machine_for_models() -> None:
    r = listed(gpu_memory="24GiB", weights="int4")

    assert r.yes
    assert r.weights == "int4"


@pytest.mark.parametrize(
    "options",
    [
        {"context": 0},
        {"context": "4_"},
        {"requests": 0},
        {"requests": -1},
        {"utilization": -1},
        {"utilization": 0},
        {"reserve": "2G"},
        {"weights": "bf15"},
        {"kv_dtype": "fp9"},
        {"tp": 0},
        {"pp": -1},
        {"gpus": 0},
        {"block_size": 0},
        {"solve": "gpus"},
        {"solve": 0},
    ],
)
@pytest.mark.parametrize("which", [{"gpu": "h100"}, {"model": "llama-3.1-8b"}])
def test_a_wrong_option_is_an_error_not_an_empty_list(
    which: dict[str, Any], options: dict[str, Any]
) -> None:
    with pytest.raises(KvcalcError) as refused:
        kvcalc.fit(engine="none", **which, **options)

    assert refused.value.code in {"usage", "unknown_dtype"}


def test_unknown_names_are_errors() -> None:
    with pytest.raises(KvcalcError, match="h1000"):
        listed(gpu="h1000")
    with pytest.raises(KvcalcError, match="llama-9"):
        listed("llama-9")
