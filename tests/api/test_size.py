"""kvcalc.size: names and option texts to figures."""

from __future__ import annotations

from typing import Any

import pytest

import kvcalc
from kvcalc import KvcalcError


def test_the_readmes_line() -> None:
    """2 × 32 × 8 × 128 × 2 = 131,072."""
    assert kvcalc.size("llama-3.1-8b", context=8192).bytes_per_token == 131_072


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("llama-3.1-8b", 131_072),  # 2 × 32 × 8 × 128 × 2
        ("llama-3.1-70b", 327_680),  # 2 × 80 × 8 × 128 × 2
        ("llama-3.1-405b", 516_096),  # 2 × 126 × 8 × 128 × 2
        ("gpt-3-175b", 4_718_592),  # 2 × 96 × 96 × 128 × 2
        ("deepseek-v3", 70_272),  # 61 × (512 + 64) × 2
        ("qwen2.5-7b", 57_344),  # 2 × 28 × 4 × 128 × 2
        ("glm-4.5", 376_832),  # 2 × 92 × 8 × 128 × 2
        ("mistral-7b-v0.1", 131_072),  # 2 × 32 × 8 × 128 × 2, below its window
    ],
)
def test_bytes_per_token_of_presets(model: str, size: int) -> None:
    assert size == kvcalc.size(model).bytes_per_token


def test_contexts_default_to_4096_and_the_maximum() -> None:
    assert [c.tokens for c in kvcalc.size("llama-3.1-8b").contexts] == [4096, 131_072]
    assert [c.tokens for c in kvcalc.size("gpt-2").contexts] == [1024]
    assert [c.tokens for c in kvcalc.size(layers=1, kv_heads=1, head_dim=1).contexts] == [4096]
    assert [c.tokens for c in kvcalc.size("llama-3.1-8b", context=[]).contexts] == [4096, 131_072]


def test_contexts_stay_in_the_order_they_were_asked_in() -> None:
    r = kvcalc.size("llama-3.1-8b", context=["128K", "4k", 1])

    assert [c.tokens for c in r.contexts] == [131_072, 4096, 1]


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ({"layers": 32, "kv_heads": 32, "head_dim": 128}, 524_288),  # 2 × 32 × 32 × 128 × 2
        ({"layers": 61, "kv_heads": 64, "head_dim": 192, "value_dim": 128}, 2_498_560),
        ({"group": ["52*sliding_window:16x128:1024", "10*full:16x128"]}, 507_904),
        ({"group": ["2*chunked:8x128:8K"]}, 8_192),
        ({"group": [" 2 * window : 8x128 : 8k "]}, 8_192),
    ],
)
def test_a_model_by_its_numbers(shape: dict[str, Any], size: int) -> None:
    assert size == kvcalc.size(**shape).bytes_per_token


def test_groups_keep_their_windows() -> None:
    """52 × 1,024 × 8,192 + 10 × 131,072 × 8,192 = 11,173,625,856, as Gemma-3-27B."""
    shape = ["52*sliding_window:16x128:1024", "10*full:16x128"]
    by_numbers = kvcalc.size(group=shape, context="128K").contexts[0].bytes_per_request

    assert by_numbers == 11_173_625_856
    assert by_numbers == kvcalc.size("gemma-3-27b", context="128K").contexts[0].bytes_per_request


def test_numbers_of_a_model_shape_the_answer() -> None:
    r = kvcalc.size(
        layers=4, kv_heads=2, head_dim=64, query_heads=8, parameters="1M",
        max_context_length="32k", weights="bf16",
    )  # fmt: skip

    assert [c.tokens for c in r.contexts] == [4096, 32_768]
    assert r.weights.bytes == 2_097_152
    assert (r.attention_variants and r.attention_variants.reduction) == 4.0


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({}, "MODEL is missing"),
        ({"model": "llama-3.1-8b", "layers": 32}, "are two models"),
        ({"model": "llama-3.1-8b", "group": ["1*full:1x1"]}, "are two models"),
        ({"model": "llama-3.1-8b", "layers": 0}, "are two models"),
        ({"layers": 32}, "--kv-heads, --head-dim missing"),
        ({"layers": 0, "kv_heads": 8, "head_dim": 128}, "--layers is 0"),
        ({"layers": 10_001, "kv_heads": 8, "head_dim": 128}, "the most is 10,000"),
        ({"layers": "1.5", "kv_heads": 8, "head_dim": 128}, "--layers 1.5"),
        ({"layers": 1, "kv_heads": 8, "head_dim": 128, "parameters": 0}, "--parameters is 0"),
        ({"layers": 1, "kv_heads": 8, "head_dim": 128, "value_dim": 0}, "--value-dim is 0"),
        ({"group": ["1*full:1x1"], "layers": 2}, "--group and --layers"),
        ({"group": ["full:8x128"]}, "is not COUNT"),
        ({"group": ["2*full:8x128:1024"]}, "takes no window"),
        ({"group": ["2*window:8x128"]}, "needs a window"),
        ({"group": ["2*mamba:8x128"]}, 'no kind "mamba"'),
        ({"group": ["0*full:8x128"]}, "--group COUNT is 0"),
        ({"group": ["4_*full:8x128"]}, "--group COUNT 4_"),
        ({"group": [5]}, "is not COUNT"),
        ({"model": ""}, "MODEL is empty"),
        ({"model": "llama-3.1-8b", "encoder_tokens": 5}, "no cross-attention"),
    ],
)
def test_models_that_cannot_be_meant(shape: dict[str, Any], message: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        kvcalc.size(**shape)

    assert refused.value.code == "usage"
    assert message in refused.value.message + (refused.value.hint or "")


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(KvcalcError) as refused:
        kvcalc.size("llama-3.1-7b")

    assert refused.value.code == "unknown_model"
    assert "llama-3.1-70b" in (refused.value.hint or "")


@pytest.mark.parametrize(("context", "answered"), [(2048, True), (2049, False), ("4k", False)])
def test_a_context_above_the_maximum_must_be_meant(context: int | str, *, answered: bool) -> None:
    """GPT-3 ends at 2,048 tokens."""
    if not answered:
        with pytest.raises(KvcalcError) as refused:
            kvcalc.size("gpt-3-175b", context=context)
        assert refused.value.code == "context_too_long"
        assert "--allow-long-context" in (refused.value.hint or "")

    r = kvcalc.size("gpt-3-175b", context=context, allow_long_context=True)
    assert r.contexts[0].tokens * 4_718_592 == r.contexts[0].bytes_per_request


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 131_072),
        ({"kv_dtype": "fp8"}, 65_536),
        ({"kv_dtype": "q8_0"}, 69_632),  # 65,536 elements × 34 / 32
        ({"kv_dtype": "f16", "k_dtype": "q8_0"}, 100_352),  # 34,816 + 65,536
        ({"kv_dtype": "fp8", "v_dtype": "auto"}, 65_536),
        ({"k_dtype": "fp32"}, 196_608),
        ({"dtype": "fp32"}, 131_072),  # auto is 2 bytes whatever the model computes in
        ({"kv_dtype": "turboquant_k8v4"}, 50_176),  # 32 × 8 × 196
        ({"kv_dtype": "int8_per_token_head"}, 67_584),  # 32 × 8 × (132 + 132)
    ],
)
def test_storage(options: dict[str, str], size: int) -> None:
    """Llama-3.1-8B keeps 32 × 8 × 128 elements of K and as many of V: 65,536 a token."""
    assert size == kvcalc.size("llama-3.1-8b", **options).bytes_per_token  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "flag"), [("kv_dtype", "--kv-dtype"), ("k_dtype", "--k-dtype"),
                         ("v_dtype", "--v-dtype"), ("dtype", "--dtype")]
)  # fmt: skip
@pytest.mark.parametrize("value", ["fp9", "", 0])
def test_an_unknown_format_is_named_with_its_option(option: str, flag: str, value: object) -> None:
    with pytest.raises(KvcalcError) as refused:
        kvcalc.size("llama-3.1-8b", **{option: value})  # type: ignore[arg-type]

    assert refused.value.code == "unknown_dtype"
    assert refused.value.message.startswith(f"{flag}:")


def test_states_follow_the_models_dtype() -> None:
    """Qwen3.6-27B keeps 48 states: 786,432 fp32 elements and 3 columns of 10,240 channels.

    48 × (786,432 × 4 + 30,720 × 2) = 153,944,064; columns in fp32 add 48 × 30,720 × 2.
    """
    own, fp32 = (kvcalc.size("qwen3.6-27b", dtype=d) for d in (None, "fp32"))

    assert own.state_bytes_per_request == 153_944_064
    assert fp32.state_bytes_per_request == 156_893_184
    assert own.bytes_per_token == fp32.bytes_per_token


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 141_107_412_992),  # 70,553,706,496 × 2, as stored
        ({"weights": "fp32"}, 282_214_825_984),
        ({"weight_bytes": "35GiB"}, 37_580_963_840),
        ({"weight_bytes": 35_000_000_000}, 35_000_000_000),
    ],
)
def test_weights_beside_the_cache(options: dict[str, Any], size: int) -> None:
    assert size == kvcalc.size("llama-3.1-70b", **options).weights.bytes


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"weights": "bf16", "weight_bytes": "35GiB"}, "usage"),
        ({"weights": "bf15"}, "unknown_dtype"),
        ({"weight_bytes": "35G"}, "usage"),
        ({"requests": 0}, "usage"),
        ({"context": -1}, "usage"),
        ({"context": "4_"}, "usage"),
        ({"request": [0]}, "usage"),
        ({"request": ["256K"]}, "context_too_long"),
        ({"block_size": 0}, "usage"),
        ({"shared_prefix": 0}, "usage"),
        ({"tp": 0}, "usage"),
        ({"tp": 65_537}, "usage"),
        ({"tp": 3}, "not_divisible"),
        ({"pp": 81}, "not_divisible"),
        ({"tp": 8, "dcp": 3}, "usage"),
        ({"engine": "vlm"}, "unknown_engine"),
        ({"engine": 5}, "unknown_engine"),
        ({"engine": "none", "engine_version": "1"}, "usage"),
        ({"engine": "none", "set": {"max_num_seqs": 4}}, "unknown_setting"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, Any], code: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        kvcalc.size("llama-3.1-70b", **options)

    assert code == refused.value.code
    assert "\n" not in refused.value.message


def test_the_result_as_a_dict_is_the_envelopes_data() -> None:
    data = kvcalc.size("llama-3.1-8b", context=1).to_dict()

    assert {k: data["contexts"][0][k] for k in ("tokens", "bytes_per_request")} == {
        "tokens": 1,
        "bytes_per_request": 131_072,
    }
    assert data["kv_dtype"] == {"key": "bf16", "value": "bf16"}
    assert "warnings" not in data
