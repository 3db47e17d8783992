"""Engines, their settings and kinds of values; rules and a file of coefficients for each."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc.api.engines import engines
from kvcalc.core.errors import KvcalcError
from kvcalc.core.plan import Rules
from kvcalc.engines.registry import ENGINES, engine_of, settings_of
from kvcalc.engines.rules import rules_for
from kvcalc.report.plain import render

#: The engines that --engine takes, as the contract lists them.
CONTRACT = ("none", "vllm", "sglang", "llama.cpp", "ik_llama.cpp", "ollama", "tensorrt-llm",
            "lmdeploy", "transformers")  # fmt: skip


def test_the_engines_are_those_of_the_contract() -> None:
    assert set(ENGINES) == set(CONTRACT)
    assert engine_of("SGLang").id == "sglang"
    with pytest.raises(KvcalcError) as caught:
        engine_of("llamacpp")
    assert "llama.cpp" in str(caught.value.hint)


@pytest.mark.parametrize("name", CONTRACT)
def test_every_engine_but_the_textbook_has_rules_of_its_own(name: str) -> None:
    rules: Rules | None = rules_for(name)

    assert (rules is None) == (name == "none")
    if rules is not None:
        for method in ("info", "ranks", "request_bytes", "needed", "requests", "block_tokens",
                       "rank_tokens", "startup_lines", "limits", "command", "changes"):  # fmt: skip
            assert callable(getattr(rules, method))


VALUES: list[tuple[str, str, object, object]] = [
    ("sglang", "mem_fraction_static", "0.85", 0.85),
    ("sglang", "mem-fraction-static", "85%", 0.85),
    ("sglang", "mamba_full_memory_ratio", "2.5", 2.5),
    ("sglang", "disable_cuda_graph", "yes", True),
    ("sglang", "chunked_prefill_size", "8k", 8192),
    ("llama.cpp", "n_gpu_layers", "0", 0),
    ("llama.cpp", "tensor_split", "3, 1", "3,1"),
    ("llama.cpp", "fit_target", "512MiB", 512 * 2**20),
    ("ollama", "kv_cache_type", "Q8_0", "q8_0"),
    ("ik_llama.cpp", "mla_attn", "2", "2"),
    ("lmdeploy", "quant_policy", 8, "8"),
    ("transformers", "all_logits", True, True),
    ("tensorrt-llm", "tokens_per_block", "64", 64),
    ("vllm", "num_draft_layers", 256, 256),
]


@pytest.mark.parametrize(("engine", "name", "text", "value"), VALUES)
def test_values_are_of_their_kinds(engine: str, name: str, text: object, value: object) -> None:
    (found,) = settings_of(engine_of(engine), {name: text}).items()

    assert found == (name.replace("-", "_"), value)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("sglang", {"mem_fraction_static": "1.2"}, "usage"),
    ("sglang", {"mamba_full_memory_ratio": "0"}, "usage"),
    ("sglang", {"mamba_full_memory_ratio": "nan"}, "usage"),
    ("sglang", {"mamba_full_memory_ratio": "inf"}, "usage"),
    ("sglang", {"max_num_seqs": "8"}, "unknown_setting"),
    ("llama.cpp", {"n_gpu_layers": "-1"}, "usage"),
    ("llama.cpp", {"n_ctx": "0"}, "usage"),
    ("llama.cpp", {"tensor_split": "3,x"}, "usage"),
    ("llama.cpp", {"tensor_split": "0,0"}, "usage"),
    ("llama.cpp", {"fit_target": "1G"}, "usage"),
    ("ollama", {"kv_cache_type": "q5_0"}, "usage"),
    ("tensorrt-llm", {"free_gpu_memory_fraction": "most"}, "usage"),
    ("none", {"n_ctx": "1"}, "unknown_setting"),
    ("tensorrt-llm", {"tokens_per_block": "48"}, "usage"),
    ("vllm", {"num_draft_layers": "1000000000000"}, "usage"),
    ("llama.cpp", {"n_seq_max": "257"}, "usage"),
    ("ik_llama.cpp", {"n_seq_max": "257"}, "usage"),
    ("ollama", {"num_parallel": "257"}, "usage"),
]


@pytest.mark.parametrize(("engine", "given", "code"), WRONG)
def test_wrong_settings_are_refused_in_one_line(
    engine: str, given: dict[str, Any], code: str
) -> None:
    with pytest.raises(KvcalcError) as caught:
        settings_of(engine_of(engine), given)

    assert caught.value.code == code
    assert "\n" not in caught.value.message


def test_a_setting_of_another_engine_names_the_nearest() -> None:
    with pytest.raises(KvcalcError) as caught:
        settings_of(engine_of("tensorrt-llm"), {"max_num_batch_tokens": 1})

    assert "max_num_tokens" in str(caught.value.hint)


def test_names_of_settings_stand_once_and_say_what_they_do() -> None:
    for engine in ENGINES.values():
        names = [s.name for s in engine.settings]
        assert len(names) == len(set(names))
        assert all(s.note for s in engine.settings)


@pytest.mark.parametrize("name", CONTRACT)
def test_coefficients_are_few_and_have_evidence(name: str) -> None:
    (item,) = engines(name).items

    assert len(item.coefficients) <= 24
    for c in item.coefficients:
        assert c.low <= c.value <= c.high
        assert c.evidence
        assert c.sources


def test_the_list_and_one_engine_in_every_form() -> None:
    listing, one = engines(), engines("ollama")

    assert [row["id"] for row in listing.to_dict()["items"]] == list(ENGINES)  # type: ignore[attr-defined]
    assert one.to_dict()["id"] == "ollama"
    assert [s["name"] for s in one.to_dict()["settings"]][:2] == ["num_ctx", "num_parallel"]  # type: ignore[attr-defined]
    assert "OLLAMA_NUM_PARALLEL" in render(one)
    assert "9 engines" in render(listing)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(KvcalcError) as caught:
        engines("sglan")

    assert caught.value.code == "unknown_engine"
