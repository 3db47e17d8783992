"""GGUF metadata that kvcalc refuses: nonsense by file and key, unknown architectures, fuzzing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.checkpoints.gguf_archs import KNOWN, REFUSED
from kvcalc.checkpoints.gguf_model import model_from_metadata
from kvcalc.core.cache import Full
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.engines.llamacpp import context

SAMPLE = Path(__file__).parents[1] / "data" / "llamacpp_context.jsonl"
RECORDS = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]

LATENT = {
    "attention__head_count_kv": 1,
    "attention__key_length": 192,
    "attention__value_length": 128,
    "attention__kv_lora_rank": 128,
    "attention__key_length_mla": 96,
    "attention__value_length_mla": 48,
}
SSM = {"ssm__conv_kernel": 4, "ssm__inner_size": 512, "ssm__state_size": 16}
V4 = {
    "attention__head_count_kv": 1,
    "attention__key_length": 512,
    "rope__dimension_count": 64,
    "attention__sliding_window": 128,
    "attention__indexer__key_length": 128,
    "attention__compress_ratios": [0, 4, 128, 4, 0],
}


def meta(architecture: str, **keys: Any) -> dict[str, Any]:
    """Metadata of a small model: 4 layers of 4 query and 2 KV heads of 64."""
    known: dict[str, Any] = {
        "block_count": 4,
        "embedding_length": 256,
        "context_length": 8192,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "vocab_size": 1000,
    }
    known |= {key.replace("__", "."): value for key, value in keys.items()}
    named = {f"{architecture}.{k}": v for k, v in known.items() if v is not None}
    return {"general.architecture": architecture, **named}


def read(architecture: str, **keys: Any) -> Model:
    return model_from_metadata(meta(architecture, **keys), name="m", where="m.gguf")


class Long(NamedTuple):
    """An array that the reader stepped over."""

    type: str
    length: int
    array: bool


def test_the_vocabulary_may_be_known_by_its_length() -> None:
    keys = meta("llama", vocab_size=None)
    tokens = {**keys, "tokenizer.ggml.tokens": Long("string", 32000, array=True)}
    assert model_from_metadata(tokens, name="m", where="m").vocab_size == 32000
    listed = {**keys, "tokenizer.ggml.tokens": ["a", "b"]}
    assert model_from_metadata(listed, name="m", where="m").vocab_size == 2
    assert model_from_metadata(keys, name="m", where="m").vocab_size is None


@pytest.mark.parametrize(
    ("architecture", "keys", "word"),
    [
        ("llama", {"block_count": None}, "block_count is missing"),
        ("llama", {"block_count": 0}, "block_count"),
        ("llama", {"block_count": 10_001}, "block_count"),
        ("llama", {"block_count": 4.0}, "block_count"),
        ("llama", {"block_count": "4"}, "block_count"),
        ("llama", {"block_count": True}, "block_count"),
        ("llama", {"attention__head_count": 0}, "head_count"),
        ("llama", {"attention__head_count": -4}, "head_count"),
        ("llama", {"attention__head_count": [0, 0, 0, 0]}, "head_count"),
        ("llama", {"attention__head_count": None}, "head_count is missing"),
        ("llama", {"attention__head_count_kv": 0}, "head_count_kv"),
        ("llama", {"attention__head_count_kv": 8}, "head_count_kv"),
        ("llama", {"attention__head_count_kv": [2, 2, 2]}, "3 entries"),
        ("llama", {"attention__head_count_kv": [2, 0, 2, 2]}, "head_count_kv"),
        ("llama", {"attention__head_count_kv": Long("int32", 9999, array=True)}, "head_count_kv"),
        ("llama", {"attention__key_length": 0}, "key_length"),
        ("llama", {"attention__key_length": 2**30}, "key_length"),
        ("llama", {"embedding_length": None}, "embedding_length is missing"),
        ("llama", {"embedding_length": 3}, "embedding_length"),
        ("llama", {"context_length": -1}, "context_length"),
        ("cohere2", {}, "sliding_window is missing"),
        ("cohere2", {"attention__sliding_window": 0}, "sliding_window"),
        ("gemma4", {"attention__sliding_window": 64}, "sliding_window_pattern is missing"),
        ("olmo2", {"attention__sliding_window": 64,
                   "attention__sliding_window_pattern": [1, 0]}, "2 entries"),
        ("olmo2", {"attention__sliding_window": 64,
                   "attention__sliding_window_pattern": [1, 0, 2, 0]}, "true and false"),
        ("olmo2", {"attention__sliding_window": 64,
                   "attention__sliding_window_pattern": "SSSF"}, "an entry a layer"),
        ("deepseek2", {**LATENT, "attention__head_count_kv": 4}, "latent attention"),
        ("deepseek2", {**LATENT, "attention__key_length": 64}, "rope dimensions"),
        ("jamba", {"attention__head_count_kv": [0, 0, 0, 0], **SSM}, "0 in every layer"),
        ("mamba", {"attention__head_count": 0}, "ssm.inner_size is missing"),
        ("mamba", {"attention__head_count": 0, **SSM, "ssm__state_size": 0}, "state_size"),
        ("deepseek4", {**V4, "attention__compress_ratios": [4]}, "a number for each layer"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_by_file_and_key(
    architecture: str, keys: dict[str, Any], word: str
) -> None:
    with pytest.raises(KvcalcError) as refused:
        read(architecture, **keys)
    assert refused.value.code == "invalid_config"
    assert refused.value.message.startswith(f"m.gguf: {architecture}.")
    assert word in refused.value.message


def test_architectures_that_kvcalc_does_not_size() -> None:
    with pytest.raises(KvcalcError) as refused:
        read("gema3")
    assert refused.value.code == "unsupported_architecture"
    assert "gemma3" in (refused.value.hint or "")
    with pytest.raises(KvcalcError, match="keeps no KV cache"):
        read("bert")
    assert not KNOWN & set(REFUSED)
    with pytest.raises(KvcalcError, match=r"general\.architecture"):
        model_from_metadata({}, name="m", where="m.gguf")


WRONG = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
    st.lists(st.one_of(st.integers(-3, 300), st.booleans(), st.text(max_size=2)), max_size=8),
    st.just(Long("int32", 10**6, array=True)),
)  # fmt: skip


@given(
    record=st.sampled_from(RECORDS), data=st.data(), wrong=st.lists(WRONG, min_size=1, max_size=3)
)
@settings(max_examples=400, deadline=None)
def test_damaged_metadata_never_gives_a_traceback(
    record: dict[str, Any], data: st.DataObject, wrong: list[Any]
) -> None:
    damaged = dict(record["gguf_meta"])
    for value in wrong:
        key = data.draw(st.sampled_from(sorted(damaged)))
        if value is None:
            del damaged[key]
        else:
            damaged[key] = value
    found: Model | None = None
    code = ""
    try:
        found = model_from_metadata(damaged, name="m", where="m.gguf")
    except KvcalcError as refused:
        code = refused.code
    if found is None:
        assert code in {"invalid_config", "unsupported_architecture"}
        return
    assert found.layers
    assert all(c.kv_heads > 0 for layer in found.layers for c in layer if isinstance(c, Full))
    stored = 0
    try:
        stored = context(found, n_ctx=4096).total_bytes
    except KvcalcError as refused:
        code = refused.code
    assert stored >= 0
    assert code in {"", "not_divisible", "unsupported_architecture", "usage"}
