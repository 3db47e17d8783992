"""SGLang's pools in a log: what each line is of, and the page each holds beside its tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api.check import check
from kvcalc.core.results.check import CheckResult

GIB = 2**30
Check = Callable[..., CheckResult]


@pytest.fixture
def checked(tmp_path: Path) -> Check:
    """Checks lines against a model."""

    def made(model: str | None, *lines: str, **options: Any) -> CheckResult:
        path = tmp_path / "server.log"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return check(str(path), model, **options)

    return made


def verdicts(result: CheckResult, *items: str) -> list[tuple[str, int, str]]:
    """(item, line, verdict) of the rows of these items."""
    rows = [r for r in result.rows if r.item in items]
    return sorted((r.item, r.line, r.verdict) for r in rows)


def pool(tokens: int, size: float, dtype: str = "bfloat16") -> str:
    """The line of one pool."""
    return (
        f"KV Cache is allocated. dtype: torch.{dtype}, #tokens: {tokens}, K size: {size:.2f} GB, "
        f"V size: {size:.2f} GB"
    )


def test_window_and_full_layers_without_their_announcement(checked: Check) -> None:
    """Gemma-4-26B-A4B, pages of 256: 25 layers of 8 heads · 256, then 5 of 2 heads · 512, bf16.

    K of (56,320 + 256) · 25 · 4 KiB is 5.40 GiB, of (70,656 + 256) · 5 · 2 KiB 0.68 GiB.
    """
    result = checked("gemma-4-26b-a4b", pool(56_320, 5.40), pool(70_656, 0.68))

    assert round(56_576 * 25 * 8 * 256 * 2 / GIB, 2) == 5.40
    assert round(70_912 * 5 * 2 * 512 * 2 / GIB, 2) == 0.68
    assert verdicts(result, "kv_key", "kv_tokens") == [
        ("kv_key", 1, "ok"), ("kv_key", 2, "ok"), ("kv_tokens", 1, "ok"), ("kv_tokens", 2, "ok"),
    ]  # fmt: skip


def test_a_drafts_pool_is_not_compared(checked: Check) -> None:
    """Qwen3.6-27B on two ranks in fp8: 16 full layers of 2 heads · 256 hold 8 KiB of K a token.

    262,144 · 8 KiB are 2 GiB; the second line is of one draft layer, 512 bytes a token.
    """
    result = checked(
        "qwen3.6-27b", pool(262_144, 2.0, "float8_e4m3fn"), pool(262_144, 0.13, "float8_e4m3fn"),
        "max_total_num_tokens=262144, chunked_prefill_size=2048, max_prefill_tokens=2048",
        tp=2,
    )  # fmt: skip

    assert 2 * GIB == 262_144 * 16 * 2 * 256
    assert verdicts(result, "kv_key", "max_total_num_tokens") == [
        ("kv_key", 1, "ok"), ("kv_key", 2, "not comparable"), ("max_total_num_tokens", 3, "ok"),
    ]  # fmt: skip


def test_the_spare_page_is_none_of_the_tokens(checked: Check) -> None:
    """Qwen3-32B in fp8: 64 KiB of K a token, 281,216 tokens and a page are 17.17 GiB.

    What prints as 34.34 GiB are 281,231 to 281,395 slots: fewer tokens, by a page of up to 256.
    """
    lines = (
        pool(281_216, 17.17, "float8_e5m2"),
        "max_total_num_tokens=281216, chunked_prefill_size=8192, max_prefill_tokens=16384",
    )
    assert verdicts(checked("qwen3-32b", *lines), "kv_tokens", "max_total_num_tokens") == [
        ("kv_tokens", 1, "ok"), ("max_total_num_tokens", 2, "ok"),
    ]  # fmt: skip

    result = checked(
        "qwen3-32b", "server_args=ServerArgs(page_size=1)", *lines
    )  # the page is known: so much is not explained
    assert ("kv_tokens", 2, "off") in verdicts(result, "kv_tokens")


def test_the_load_is_printed_with_the_weights(checked: Check) -> None:
    """Qwen3.6-27B in bf16 takes 51.14 GiB; libraries that the load brings are in the line too."""
    result = checked(
        "qwen3.6-27b",
        "Load weight end. elapsed=353.55 s, type=Qwen3_5ForConditionalGeneration, avail mem=59.87 "
        "GB, mem usage=51.86 GB.",
        gpu="rtx-pro-6000",
    )
    row = next(r for r in result.rows if r.item == "weights")

    assert row.verdict == "ok"
    assert row.predicted is not None
    assert 0.05 <= row.predicted / GIB - 51.14 <= 0.4


@pytest.mark.parametrize(("mib", "tokens"), [(64, 128), (32, 64)])
def test_lmdeploys_blocks_of_128_tokens(checked: Check, mib: int, tokens: int) -> None:
    """Until 2024 the default was 128: 32 layers · 32 heads · 128 · 2 · 2 bytes are 512 KiB."""
    result = checked(
        None, f"[TM][INFO] [BlockManager] block_size = {mib} MB",
        "[TM][INFO] [BlockManager] max_block_count = 159", layers=32, kv_heads=32, head_dim=128,
    )  # fmt: skip
    row = next(r for r in result.rows if r.item == "block_bytes")

    assert row.verdict == "ok"
    assert f"locks of {tokens} tokens" in row.explanation


def test_tensorrt_of_a_width_that_was_not_fitted(checked: Check) -> None:
    """Qwen3-0.6B on an H100: 28 layers · 8 heads · 128 · 2 · 2 bytes, 112 KiB a token."""
    result = checked(
        "qwen3-0.6b",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 68.69 GiB for max tokens in paged KV "
        "cache (643136).",
        gpu="h100",
    )

    assert round(643_136 * 112 * 1024 / GIB, 2) == 68.69
    assert verdicts(result, "kv_pool") == [("kv_pool", 1, "ok")]
