"""Draft layers on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvcalc
from kvcalc.core.errors import KvcalcError

CONFIG = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536,
    "num_nextn_predict_layers": 1, "vocab_size": 129280, "intermediate_size": 18432,
    "max_position_embeddings": 163840,
}  # fmt: skip


def test_draft_layers_count_only_on_request(tmp_path: Path) -> None:
    """61 layers × 576 × 2 = 70,272 B a token; one more layer is 1,152 more."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))

    assert kvcalc.size(str(file)).bytes_per_token == 70_272
    assert kvcalc.size(str(file), include_mtp=True).bytes_per_token == 70_272 + 1_152


def test_a_preset_names_no_draft_layers() -> None:
    with pytest.raises(KvcalcError, match="not read from a config"):
        kvcalc.size("deepseek-v3", include_mtp=True)
