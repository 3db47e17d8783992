"""Parameter counts by hand, by part, of wrappers and of damaged configs; stored bytes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.checkpoints.parameters import ParameterCount, count_parameters
from kvcalc.checkpoints.parameters.stored import format_of_config, stored_bytes
from kvcalc.core.errors import KvcalcError
from kvcalc.core.weight_formats import WeightEstimate

DATA = Path(__file__).parents[1] / "data"
SAMPLES = [
    json.loads(line)["config"]
    for name in ("parameters_oracle", "parameters_instantiated")
    for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
]
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000,
    "num_hidden_layers": 32, "num_attention_heads": 32, "dtype": "float16",
}  # fmt: skip
LLAMA_70B = {
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 128256,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK = {"model_type": "deepseek_v3", "dtype": "bfloat16"}
GPT_OSS = {"model_type": "gpt_oss", "dtype": "bfloat16"}


def count(config: dict[str, Any]) -> ParameterCount:
    found = count_parameters(config)
    assert found is not None
    return found


def stored(config: dict[str, Any], **quantisation: Any) -> WeightEstimate:
    found = stored_bytes(
        {**config, "quantization_config": quantisation} if quantisation else config
    )
    assert found is not None
    return found


def test_llama_7b() -> None:
    """2·V·d + L·(4·d² + 3·d·f + 2·d) + d."""
    d, f, v, n = 4096, 11008, 32000, 32
    found = count(LLAMA)
    assert found.total == 2 * v * d + n * (4 * d * d + 3 * d * f + 2 * d) + d == 6_738_415_616
    assert found.embedding == found.output_head == v * d
    assert (found.attention, found.mlp) == (n * 4 * d * d, n * 3 * d * f)
    assert found.norms == n * 2 * d + d
    assert found.active == found.total
    assert found.unquantised == 2 * v * d + found.norms
    assert found.vision == 0


def test_mistral_7b() -> None:
    """Grouped queries: k and v are 8 · 128 wide."""
    d, f, v, n, kv = 4096, 14336, 32000, 32, 8 * 128
    layer = 2 * d * d + 2 * d * kv + 3 * d * f + 2 * d
    assert count({"model_type": "mistral"}).total == 2 * v * d + n * layer + d == 7_241_732_096


def test_mixtral() -> None:
    """E·3·d·f + d·E a layer; two of eight experts work: the published 12.9B active."""
    d, f, v, n, e, kv = 4096, 14336, 32000, 32, 8, 8 * 128
    layer = 2 * d * d + 2 * d * kv + e * 3 * d * f + d * e + 2 * d
    found = count({"model_type": "mixtral"})
    assert found.total == 2 * v * d + n * layer + d == 46_702_792_704
    assert found.experts == found.expert_matrices == n * e * 3 * d * f
    assert found.router == n * d * e
    assert found.active == found.total - n * 6 * 3 * d * f == 12_879_925_248


def test_gpt_oss_120b() -> None:
    """Biases everywhere, a sink per query head, experts of 2·d·f + 2·f + f·d + d."""
    d, f, v, n, h, kv, dh, e = 2880, 2880, 201088, 36, 64, 8, 64, 128
    attention = 2 * d * h * dh + 2 * d * kv * dh + (h + 2 * kv) * dh + d + h
    experts = e * (3 * d * f + 2 * f + d)
    layer = attention + d * e + e + experts + 2 * d
    found = count(GPT_OSS)
    assert found.total == 2 * v * d + n * layer + d == 116_829_156_672
    assert found.expert_matrices == n * e * 3 * d * f == 114_661_785_600
    assert found.experts - found.expert_matrices == 39_813_120
    assert found.total - found.experts == 2_127_557_952
    assert found.active == found.total - n * 124 * (3 * d * f + 2 * f + d)


def test_deepseek_v3() -> None:
    """Latent attention, three dense layers, 58 of 256 + 1 experts; router biases are buffers."""
    d, v, n, h, rq, r, nope, rope, vd = 7168, 129280, 61, 128, 1536, 512, 128, 64, 128
    f, fm, e = 18432, 2048, 256
    attention = (
        d * rq + rq + rq * h * (nope + rope) + d * (r + rope) + r + r * h * (nope + vd) + h * vd * d
    )
    sparse = e * 3 * d * fm + e * d + 3 * d * fm
    total = 2 * v * d + n * (attention + 2 * d) + 3 * 3 * d * f + 58 * sparse + d
    found = count(DEEPSEEK)
    assert found.total == total == 671_026_404_352
    assert found.buffers == 58 * 256
    assert found.active is not None
    assert round(found.active / 1e9, 1) == 37.6


def test_qwen3_next() -> None:
    """36 gated delta nets, 12 gated attentions, 512 experts and a gated shared one everywhere."""
    d, v, n, h, kv, dh = 2048, 151936, 48, 16, 2, 256
    hk, hv, dk, dv, k = 16, 32, 128, 128, 4
    kd, vd = hk * dk, hv * dv
    gdn = d * (2 * kd + 2 * vd) + 2 * d * hv + (2 * kd + vd) * k + 2 * hv + dv + vd * d
    full = d * 2 * h * dh + 2 * d * kv * dh + h * dh * d + 2 * dh
    moe = 512 * 3 * d * 512 + d * 512 + 3 * d * 512 + d
    found = count({"model_type": "qwen3_next"})
    assert found.total == 2 * v * d + 36 * gdn + 12 * full + n * (moe + 2 * d) + d == 79_674_391_296
    assert found.shared_experts == n * (3 * d * 512 + d)


@pytest.mark.parametrize("config", SAMPLES, ids=lambda c: c["model_type"])
def test_parts_add_up(config: dict[str, Any]) -> None:
    found = count(config)
    parts = (
        found.embedding, found.output_head, found.attention, found.mlp, found.experts,
        found.shared_experts, found.router, found.norms, found.recurrent, found.other,
    )  # fmt: skip
    assert sum(parts) == found.total
    assert all(part >= 0 for part in parts)
    assert found.expert_matrices <= found.linear <= found.total
    assert found.active is None or 0 < found.active <= found.total


def test_old_and_new_names_are_one_model() -> None:
    new = {"model_type": "falcon", "num_hidden_layers": 60, "num_attention_heads": 128,
           "num_kv_heads": 8, "new_decoder_architecture": True, "hidden_size": 8192}  # fmt: skip
    old = {"model_type": "falcon", "n_layer": 60, "n_head": 128, "n_head_kv": 8,
           "new_decoder_architecture": True, "hidden_size": 8192}  # fmt: skip
    assert count(new) == count(old)
    pattern = {"model_type": "nemotron_h", "hybrid_override_pattern": "M*-E"}
    blocks = ["linear_attention", "full_attention", "mlp", "moe"]
    resaved = {"model_type": "nemotron_h", "layers_block_type": blocks}
    assert count(pattern) == count(resaved)


def test_null_is_not_missing() -> None:
    """DeepSeek-V2-Lite's queries come straight from d; a config without the key has r_q = 1,536."""
    lite = {
        "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_experts_per_tok": 6, "num_attention_heads": 16, "num_hidden_layers": 27,
        "first_k_dense_replace": 1, "vocab_size": 102400, "q_lora_rank": None,
    }  # fmt: skip
    assert count(lite).total == 15_706_484_224
    del lite["q_lora_rank"]
    assert count(lite).total == 15_748_993_024


#: SigLIP of 27 layers as Gemma 3 has it; the tower's published parameters with its projector.
SIGLIP = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
          "num_attention_heads": 16, "image_size": 896, "patch_size": 14,
          "vision_use_head": False}  # fmt: skip
QWEN_VIT = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584}
LLAMA4_VIT = {"hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34,
              "image_size": 336, "patch_size": 14, "vision_output_dim": 4096}  # fmt: skip


@pytest.mark.parametrize(
    ("model_type", "width", "tower", "published"),
    [
        ("gemma3", 5376, SIGLIP, 423_060_336),
        ("gemma3", 2560, SIGLIP, 419_816_304),
        ("qwen2_5_vl", 3584, QWEN_VIT, 676_550_144),
        ("qwen3_vl", 4096, {"out_hidden_size": 4096}, 576_388_336),
        ("qwen3_5", 5120, {"out_hidden_size": 5120}, 460_730_096),
        ("mistral3", 5120, {}, 438_958_080),
        ("llama4", 5120, LLAMA4_VIT, 871_932_416),
        ("kimi_k25", 7168, {}, None),
    ],
)
def test_vision_towers(
    model_type: str, width: int, tower: dict[str, Any], published: int | None
) -> None:
    config = {
        "model_type": model_type,
        "text_config": {"hidden_size": width},
        "vision_config": tower,
    }
    found = count(config)
    assert found.vision == published
    assert found.total == count({**config, "vision_config": {"unknown": True}}).total


def test_minimax_m3_adds_up_to_its_published_total() -> None:
    """427,040,140,160 = text + tower + one correction bias per expert in 57 layers."""
    text = {"hidden_size": 6144, "moe_layer_freq": [0, 0, 0] + [1] * 57,
            "sparse_attention_config": {"sparse_attention_freq": [0, 0, 0] + [1] * 57}}  # fmt: skip
    found = count({"model_type": "minimax_m3_vl", "text_config": text, "vision_config": {}})
    assert found.vision is not None
    assert found.total + found.vision + found.buffers == 427_040_140_160


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "no_such_model"},
        {"model_type": 7},
        {"model_type": "mistral3"},  # a wrapper without a text model
        {"model_type": "mistral3", "text_config": {}},
        {**LLAMA, "hidden_size": "4096"},
        {**LLAMA, "hidden_size": -1},
        {**LLAMA, "num_attention_heads": 0},
        {**LLAMA, "num_hidden_layers": 10**9},
        {**LLAMA, "num_hidden_layers": 2.5},
        {**LLAMA, "attention_bias": "yes"},
        {"model_type": "mixtral", "num_experts_per_tok": 9},
        {"model_type": "kimi_linear", "routed_expert_hidden_size": 3584},  # Kimi K3
        {"model_type": "doge", "is_moe": True},
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M?"},
        {"model_type": "nemotron-nas", "hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 8},
    ],
)
def test_unknown_and_damaged_configs_have_no_count(config: dict[str, Any]) -> None:
    assert count_parameters(config) is None
    assert stored_bytes(config) is None


WORDS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), st.text(max_size=3),
    st.lists(st.one_of(st.integers(-2, 2), st.text(max_size=3), st.lists(st.none())), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(-2, 2), max_size=2),
)  # fmt: skip


@settings(deadline=None)
@given(sample=st.sampled_from(SAMPLES), data=st.data())
def test_damage_never_raises(sample: dict[str, Any], data: st.DataObject) -> None:
    config = copy.deepcopy(sample)
    names = st.sampled_from([*config, "layer_types", "mlp_layer_types", "head_dim"])
    for name in data.draw(st.lists(names, min_size=1, max_size=3)):
        config[name] = data.draw(WORDS)
    found = count_parameters(config)
    assert found is None or found.total >= 0


def test_plain_checkpoints_are_exact() -> None:
    assert stored(LLAMA)[:4] == (13_476_831_232, 13_476_831_232, 13_476_831_232, "exact")
    assert format_of_config({"torch_dtype": "torch.float32"}) is not None
    assert stored({**LLAMA, "dtype": "float32"}).bytes == 4 * 6_738_415_616
    assert stored_bytes({k: v for k, v in LLAMA.items() if k != "dtype"}) is None
    assert format_of_config({"model_type": "llama"}) is None


def test_gpt_oss_is_stored_as_published() -> None:
    """The sum of the checkpoint's tensors: 65,248,815,744 bytes; the 20B's 13,761,264,768."""
    kept = [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ]
    method = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    found = stored(GPT_OSS, **method)
    assert (found.bytes, found.basis) == (65_248_815_744, "exact")
    small = {**GPT_OSS, "num_hidden_layers": 24, "num_local_experts": 32}
    assert stored(small, **method).bytes == 13_761_264_768


def test_deepseek_v3_is_stored_as_published() -> None:
    """680,571,043,840 fp8 and 3,918,786,560 bf16 weights, 41,540,496 scales: with the MTP layer.

    That layer is one of the 58 with embedding and head of its own, a projection of 2·d·d and
    five norms of d; its 128 × 128 blocks are those of any sparse layer.
    """
    found = stored(DEEPSEEK, quant_method="fp8", weight_block_size=[128, 128])
    whole, d, v = count(DEEPSEEK), 7168, 129280
    sparse = whole.attention // 61 + (whole.experts + whole.shared_experts) // 58
    assert whole.linear + sparse == 680_571_043_840
    beside = 2 * v * d + 2 * d * d + 256 * d + 5 * d + 1536 + 512
    assert whole.unquantised + beside == 3_918_786_560
    blocks = 257 * 3 * 16 * 56 + (12 * 56 + 192 * 12 + 5 * 56 + 256 * 4 + 56 * 128)
    fp8 = dict(found.types)["fp8_block"]
    assert (fp8 - whole.linear) // 4 + blocks == 41_540_496
    assert found.bytes == fp8 + 2 * whole.unquantised
    assert found.basis == "exact"


def test_awq_and_gptq() -> None:
    """Scales and zeros per 128 inputs; GPTQ stores an int32 for every input besides."""
    awq = stored(LLAMA_70B, quant_method="awq", bits=4, group_size=128, zero_point=True)
    assert (awq.bytes, awq.basis) == (39_767_785_472, "exact")
    gptq = stored(LLAMA_70B, quant_method="gptq", bits=4, group_size=128, desc_act=False)
    inputs = 80 * (6 * 8192 + 28672)  # q, k, v, o, gate and up have d inputs, down has f
    assert gptq.bytes == awq.bytes + 4 * inputs
    whole = stored(LLAMA_70B, quant_method="awq", bits=4, group_size=64)
    assert whole.bytes > awq.bytes


def test_kept_modules_stay_at_16_bits() -> None:
    """By part, by layer, by glob and by a simple expression; the head only where it is left out."""

    def fp8(*kept: str) -> int:
        return stored(LLAMA, quant_method="fp8", modules_to_not_convert=list(kept)).bytes

    plain, d, f = fp8(), 4096, 11008
    assert fp8("lm_head", "model.embed_tokens") == plain
    assert fp8("model.layers.0.mlp.down_proj") == plain + d * f - 4
    assert fp8("model.layers.0.mlp", "model.layers.1.mlp") == plain + 2 * (3 * d * f - 3 * 4)
    everywhere = plain + 32 * (d * d - 4)
    assert fp8("q_proj") == fp8("model.layers.*.self_attn.q_proj") == everywhere
    assert fp8(r"re:.*self_attn\.(q_proj|x)$") == everywhere
    assert fp8("re:((a+)+)+$") == plain  # never run as an expression


def test_compressed_tensors() -> None:
    """Kimi K2 Thinking: int4 experts in groups of 32, the rest bf16; its files are 594 GB."""
    kimi = {"model_type": "kimi_k2", "n_routed_experts": 384, "num_attention_heads": 64,
            "first_k_dense_replace": 1, "vocab_size": 163840, "dtype": "bfloat16"}  # fmt: skip
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
               "symmetric": True}  # fmt: skip
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*",
              r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]  # fmt: skip
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    found = stored(kimi, quant_method="compressed-tensors", ignore=ignore, config_groups=groups)
    whole = count(kimi)
    assert whole.total + whole.buffers == 1_026_408_232_448
    kept = 2 * (whole.total - whole.expert_matrices)
    matrices = 60 * 384 * 3 * 16  # the stored shape of each, two int64
    assert found.bytes == whole.expert_matrices * 9 // 16 + matrices + kept
    assert 593 < found.bytes / 1e9 < 596
    assert found.basis == "estimated"


@pytest.mark.parametrize(
    ("quantisation", "key", "bits"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", 8),
        ({"quant_method": "fbgemm_fp8"}, "fp8_channel", 8),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "gptq_int8", 8.1875),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", 4.5),
        ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4_double", 4.126953125),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb_int8", 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 4.5),
        ({"quantization": {"quant_algo": "FP8"}}, "fp8", 8),
        ({"quant_method": "mxfp4"}, "mxfp4", 4.25),
    ],
)
def test_methods(quantisation: dict[str, Any], key: str, bits: float) -> None:
    for config in (
        {**LLAMA_70B, "quantization_config": quantisation},
        {"model_type": "llava", "text_config": {**LLAMA_70B, "quantization_config": quantisation}},
    ):
        found = format_of_config(config)
        assert found is not None
        assert (found.key, float(found.bits)) == (key, bits)
        size = stored_bytes(config)
        assert size is not None
        assert size.low_bytes <= size.bytes <= size.high_bytes <= 2 * 70_553_706_496


@pytest.mark.parametrize(
    ("quantisation", "named"),
    [
        ({"quant_method": "aqlm"}, "aqlm"),
        ({"quant_method": "hqq"}, "hqq"),
        ({"quant_method": "quanto"}, "quanto"),
        ({"quant_method": "brand_new"}, "brand_new"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "MIXED_PRECISION"),
        ({"quant_method": "awq", "bits": 3}, "bits 3"),
        ({"quant_method": "gptq", "bits": "4"}, "bits 4"),
        ({"quant_method": "gptq", "group_size": -128}, "group_size -128"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size"),
        ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "compressed-tensors"}, "groups"),
        ({}, "method"),
    ],
)
def test_other_methods_are_refused_by_name(quantisation: dict[str, Any], named: str) -> None:
    config = {**LLAMA, "quantization_config": quantisation}
    for function in (format_of_config, stored_bytes):
        with pytest.raises(KvcalcError, match=named) as refusal:
            function(config)
        assert refusal.value.code == "unknown_dtype"
