"""vLLM's planning rules one by one."""

from __future__ import annotations

from typing import Any

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.engines import vllm
from kvcalc.engines.vllm import Plan, plan
from kvcalc.engines.vllm.specs import MLA, spec_of
from kvcalc.engines.vllm.versions import NEWEST, in_flight_tokens, rules_of, version_of

GIB = 2**30


def attention(kind: str = "FullAttentionSpec", page: int = 65536, **more: Any) -> dict[str, Any]:
    known = {"type": kind, "block_size": 16, "page_size_bytes": page, "num_kv_heads": 8}
    return {**known, "head_size": 128, "head_size_v": 128, "dtype": "torch.bfloat16", **more}


def planned(layers: list[Any], memory: int | list[int] = 10 * GIB, **more: Any) -> Plan:
    settings = {"max_model_len": 32768, "max_in_flight_tokens": 16384, **more}
    return plan(layers, memory, **settings)


# --- the pool -----------------------------------------------------------------------------------


def test_the_null_block_is_not_for_requests() -> None:
    """256 blocks of 2 MiB for 4,096 tokens, and one more that vLLM keeps."""
    layers = [{"spec": attention(), "repeat": 32}]
    refused = planned(layers, 256 * 2**21, max_model_len=4096)
    assert refused.error is not None
    assert not refused.fits
    assert (refused.needed_bytes, refused.final_max_model_len) == (256 * 2**21, 4080)
    assert refused.num_blocks == 256
    assert planned(layers, 257 * 2**21, max_model_len=4096).fits
    assert planned(layers, 256 * 2**21, max_model_len=4096, version="0.28.0").fits


def test_auto_fit_shortens_instead_of_refusing() -> None:
    fitted = planned([attention()] * 32, 2 * GIB, max_model_len=131072, auto_fit=True)
    assert (fitted.error, fitted.final_max_model_len, fitted.tokens) == (None, 16368, 16384)
    nothing = planned([attention()] * 32, 2**21, auto_fit=True)
    assert nothing.num_blocks is None
    assert nothing.error is not None
    assert "even a single token" in nothing.error


def test_no_memory_at_all() -> None:
    refused = planned([attention()] * 32, 0)
    assert refused.error is not None
    assert refused.error.startswith("ValueError: No available memory")


def test_attention_free_models_keep_one_block() -> None:
    assert planned([]).num_blocks == 1


def test_cross_attention_counts_the_encoder() -> None:
    layers = [attention(), attention("CrossAttentionSpec")]
    assert planned(layers).groups[1].blocks_per_request == 512, "half of what is in flight"
    sized = planned(layers, max_num_encoder_input_tokens=1500)
    assert sized.groups[1].blocks_per_request == 94


def test_decode_context_ranks_share_full_caches() -> None:
    once, eight = planned([attention()] * 4), planned([attention()] * 4, dcp=8)
    assert (once.blocks_per_request, eight.blocks_per_request) == (2048, 256)
    assert eight.tokens == 8 * (once.tokens or 0)
    refused = planned([attention(), attention("SlidingWindowSpec", sliding_window=64)], dcp=2)
    assert refused.error == "AssertionError: DCP not support sliding window."
    replicated = planned([attention(dcp_sharded=False)] * 4, dcp=8)
    assert replicated.blocks_per_request == 2048


def test_stages_without_some_group_still_count_its_blocks() -> None:
    """Three groups of one sliding layer and one of full: the second stage holds two of them."""
    slides = attention("SlidingWindowSpec", sliding_window=1024)
    result = planned([[slides, attention()], [slides, slides]], [GIB, GIB])
    assert (result.num_blocks, result.bytes_per_block) == (GIB // 65536, 65536)
    assert result.blocks_per_request == 3 * 1089 + 2048
    flat = planned([slides, attention(), slides, slides], [GIB, GIB])
    assert flat.num_blocks == result.num_blocks


# --- groups -------------------------------------------------------------------------------------


def test_groups_take_the_larger_size_if_it_is_near() -> None:
    """12 sliding + 13 full: two groups of 13, not three of 12; 11 + 20: three of 11."""
    slides = attention("SlidingWindowSpec", sliding_window=128)
    near = planned([{"spec": attention(), "repeat": 13}, {"spec": slides, "repeat": 12}])
    assert [g.n_layers for g in near.groups] == [13, 12]
    far = planned([{"spec": attention(), "repeat": 11}, {"spec": slides, "repeat": 20}])
    assert [g.n_layers for g in far.groups] == [11, 10, 10]
    old = planned(
        [{"spec": attention(), "repeat": 13}, {"spec": slides, "repeat": 12}], version="0.10.2"
    )
    assert [g.n_layers for g in old.groups] == [7, 6, 12]


def test_smaller_pages_take_larger_blocks_or_padding() -> None:
    """32,768 divides 65,536: blocks of 32. 40,960 does not: the page is padded."""
    slides = attention("SlidingWindowSpec", sliding_window=1024)
    halves = planned([slides, attention(page=32768, num_kv_heads=4)])
    assert [(g.block_size, g.page_size_bytes) for g in halves.groups] == [(16, 65536), (32, 65536)]
    padded = planned([slides, attention(page=40960, num_kv_heads=5)])
    assert [(g.block_size, g.page_size_bytes) for g in padded.groups] == [(16, 65536), (16, 65536)]
    old = planned([slides, attention(page=40960, num_kv_heads=5)], version="0.22.1")
    assert old.error is not None
    assert "not divisible" in old.error


def test_states_are_padded_to_the_largest_page() -> None:
    state = {
        "type": "MambaSpec", "block_size": 32768, "page_size_bytes": 50000,
        "shapes": [[3, 1000], [10, 1, 2200]], "dtypes": "(torch.bfloat16, torch.bfloat16)",
        "num_speculative_blocks": 2,
    }  # fmt: skip
    result = planned([attention(), state, state])
    assert [g.page_size_bytes for g in result.groups] == [65536, 65536, 65536]
    assert result.groups[1].blocks_per_request == 3
    aligned = planned([attention(), {**state, "num_prefill_checkpoint_blocks": 1}],
                      mamba_cache_mode="align")  # fmt: skip
    assert aligned.groups[1].blocks_per_request == 5


def test_latents_are_not_padded() -> None:
    """MLA beside a sliding draft of another page: the draft is allocated as full attention."""
    latent = attention("MLAAttentionSpec", 18432, num_kv_heads=1, head_size=576, head_size_v=0)
    draft = attention("SlidingWindowSpec", 32768, num_kv_heads=4, sliding_window=512)
    result = planned([latent, latent, draft])
    assert [(g.n_layers, g.spec_type) for g in result.groups] == [(3, "UniformTypeKVCacheSpecs")]
    chunked = attention("ChunkedLocalAttentionSpec", 32768, attention_chunk_size=512)
    refused = planned([latent, chunked])
    assert refused.error is not None
    assert refused.error.startswith("NotImplementedError: Layer 0")


def test_without_the_hybrid_manager_windows_are_full() -> None:
    slides = attention("SlidingWindowSpec", sliding_window=1024)
    chunks = attention("ChunkedLocalAttentionSpec", attention_chunk_size=8192)
    for layer in (slides, chunks):
        result = planned([attention(), layer, layer], disable_hybrid=True)
        assert [(g.n_layers, g.blocks_per_request) for g in result.groups] == [(3, 2048)]
    two = attention("SlidingWindowSpec", sliding_window=512)
    refused = planned([attention(), slides, two], disable_hybrid=True)
    assert refused.error is not None
    assert "same window size" in refused.error
    state = {"type": "MambaSpec", "block_size": 1, "page_size_bytes": 64}
    refused = planned([attention(), state], disable_hybrid=True)
    assert refused.error is not None
    assert "Failed to promote" in refused.error
    alone = planned([slides, slides], disable_hybrid=True)
    assert alone.groups[0].spec_type == "SlidingWindowSpec"


def test_padded_pages_of_promoted_windows_hold_their_block() -> None:
    slides = attention("SlidingWindowSpec", 70000, page_size_padded=70000, sliding_window=64)
    result = planned([attention(block_size=32, page=131072), slides], disable_hybrid=True)
    assert result.groups[0].page_size_bytes == 131072 + 131072


def test_layouts_that_cannot_hold_mixed_pages() -> None:
    layers = [attention(), attention(page=32768, num_kv_heads=4)]
    assert planned(layers).groups[0].page_size_bytes == 98304
    refused = planned(layers, layout="BHLNC")
    assert refused.error is not None
    assert "cannot express" in refused.error


def test_packed_states_never_widen_a_block() -> None:
    """Block-outermost: 6 states of 1,000 beside one layer of 3,500 make groups of 3."""
    state = {"type": "MambaSpec", "block_size": 4096, "page_size_bytes": 1000}
    result = planned([attention(page=3500), *[state] * 6], layout="BLHNC")
    assert [g.n_layers for g in result.groups] == [1, 3, 3]
    assert result.bytes_per_block == 3500


def test_a_ring_takes_one_block_a_request() -> None:
    ring = attention("CircularBufferSpec", 65536)
    assert planned([attention(), ring]).groups[1].blocks_per_request == 1


# --- layers in their dict form ------------------------------------------------------------------


def test_pages_follow_from_the_fields() -> None:
    plain = attention()
    del plain["page_size_bytes"]
    assert spec_of(plain).page_bytes == 16 * 8 * 256 * 2
    packed = {
        "type": MLA, "block_size": 256, "num_kv_heads": 1, "head_size": 512, "tokens_per_state": 4,
        "state_content_bytes": 584, "dtype": "torch.uint8",
    }  # fmt: skip
    assert spec_of(packed).page_bytes == 64 * 584
    assert spec_of({**packed, "page_size_padded": 37440}).page_bytes == 37440
    state = {"type": "MambaSpec", "block_size": 8, "shapes": [[3, 8], [4, 4]],
             "dtypes": ["torch.bfloat16", "torch.float32"]}  # fmt: skip
    assert spec_of(state).page_bytes == 3 * 8 * 2 + 16 * 4
    aligned = spec_of({**packed, "page_size_padded": 37440, "alignment": 576})
    assert aligned.with_block_size(512).page_bytes == 74880
    slots = spec_of({**plain, "num_head_slots": 2})
    assert slots.page_bytes == 16 * 2 * 256 * 2


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        ({"type": "FullAttention", "block_size": 16}, "FullAttentionSpec"),
        ({"type": "FullAttentionSpec"}, "block_size"),
        (attention(block_size=0), "block_size"),
        (attention(page_size_bytes=-1), "page_size_bytes"),
        (attention(num_kv_heads=True), "num_kv_heads"),
        ({"spec": attention(), "repeat": 0}, "repeat"),
        (7, "must be a spec"),
        ({"type": "FullAttentionSpec", "block_size": 1, "num_kv_heads": 1, "head_size": 1,
          "dtype": "torch.complex64"}, "complex64"),
    ],
)  # fmt: skip
def test_layers_that_are_none(layer: object, word: str) -> None:
    with pytest.raises(KvcalcError) as refused:
        planned([layer])
    assert word in f"{refused.value.message} {refused.value.hint}"


def test_other_nonsense() -> None:
    for wrong in ({"layout": "NHD"}, {"max_model_len": 0}, {"dcp": 0}, {"version": "newest"}):
        with pytest.raises(KvcalcError):
            planned([attention()], **wrong)
    with pytest.raises(KvcalcError):
        planned([attention()], [])
    with pytest.raises(AttributeError):
        vllm.nothing  # noqa: B018


# --- releases -----------------------------------------------------------------------------------


def test_versions_are_read_from_what_logs_print() -> None:
    assert version_of("0.13.0rc2.dev112+g763963aa7.d20251213") == (0, 13, 0)
    assert version_of("v0.20") == (0, 20, 0)
    assert rules_of(None) == rules_of(NEWEST) == rules_of("9.9.9")
    assert rules_of("0.20.0").tokens_by_blocks
    assert not rules_of("0.20.1").tokens_by_blocks


def test_windows_are_charged_for_all_batches_since_0_26() -> None:
    assert in_flight_tokens(8192, "0.25.1") == 8192
    assert in_flight_tokens(8192, "0.26.0") == 16384
    assert in_flight_tokens(8192, None, async_scheduling=False) == 8192
    assert in_flight_tokens(8192, None, pp=2) == 24576
