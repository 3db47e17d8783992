"""llama.cpp's caches beside a log that is quiet, cut, or of another batch than the default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.api.check import check
from kvcalc.core.results.check import CheckResult

MIB = 2**20
Check = Callable[..., CheckResult]


@pytest.fixture
def checked(tmp_path: Path) -> Check:
    """Checks lines against a model."""

    def made(model: str | None, *lines: str, **options: Any) -> CheckResult:
        path = tmp_path / "server.log"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return check(str(path), model, **options)

    return made


def verdicts(result: CheckResult) -> list[tuple[str, str, str]]:
    """(item, device, verdict) of each figure that is compared."""
    return [(r.item, r.device, r.verdict) for r in result.rows if r.predicted is not None]


@pytest.mark.parametrize(("cells", "mib"), [(256, 6), (768, 18), (2304, 54)])
def test_windows_tell_the_batch(checked: Check, cells: int, mib: int) -> None:
    """gpt-oss-20b: windows of 128 and a batch of 128, 512 or 2,048; 12 layers · 2 KiB a cell."""
    result = checked(
        "gpt-oss-20b",
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 131072 cells",
        "llama_kv_cache: size = 3072.00 MiB (131072 cells,  12 layers,  1/1 seqs), K (f16): "
        "1536.00 MiB, V (f16): 1536.00 MiB",
        f"llama_kv_cache_iswa: creating     SWA KV cache, size = {cells} cells",
        f"llama_kv_cache: size =   {mib}.00 MiB (  {cells} cells,  12 layers,  1/1 seqs), K (f16): "
        f"{mib / 2:.2f} MiB, V (f16): {mib / 2:.2f} MiB",
    )

    assert cells * 12 * 2048 == mib * MIB
    assert ("kv_cache", "SWA", "ok") in verdicts(result)
    assert all(verdict == "ok" for *_, verdict in verdicts(result))


def test_a_batch_that_is_told_is_not_looked_for(checked: Check) -> None:
    result = checked(
        "gpt-oss-20b",
        "llama_context: n_ctx         = 8192",
        "llama_context: n_ubatch      = 512",
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 256 cells",
        "llama_kv_cache: size =    6.00 MiB (   256 cells,  12 layers,  1/1 seqs), K (f16):    3.00"
        " MiB, V (f16):    3.00 MiB",
        "llama_kv_cache: size =    6.00 MiB (   256 cells,  12 layers,  1/1 seqs), K (f16):    3.00"
        " MiB, V (f16):    3.00 MiB",
    )

    assert any(verdict == "off" for *_, verdict in verdicts(result))


def test_a_quiet_log_has_buffers_and_cells(checked: Check) -> None:
    """Below -lv 4 no size lines: 8 layers of one head · 512 and 40 of 8 · 256, four slots.

    8,192 · 8 · 2 KiB are 128 MiB; 4 · 1,024 + 2,048 cells · 40 · 8 KiB are 1,920 MiB.
    """
    result = checked(
        None,
        "0.19.914.512 I llama_context: n_ctx         = 8192",
        "0.19.914.514 I llama_context: kv_unified    = true",
        "0.19.914.972 I llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells",
        "0.19.915.550 I llama_kv_cache:    Vulkan0 KV buffer size =   128.00 MiB",
        "0.19.990.788 I llama_kv_cache_iswa: creating     SWA KV cache, size = 6144 cells",
        "0.19.992.711 I llama_kv_cache:    Vulkan0 KV buffer size =  1920.00 MiB",
        "0.22.496.223 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192",
        group=("8*full:1x512", "40*sliding_window:8x256:1024"),
    )

    assert (128 * MIB, 1920 * MIB) == (8192 * 8 * 2048, 6144 * 40 * 8192)
    assert verdicts(result) == [("kv_pool", "Vulkan0", "ok")] * 2


def test_options_say_what_the_log_does_not(checked: Check) -> None:
    """Two slots of 4,096 tokens in q8_0: 32 layers · 8 heads · 128 · 2 at 34 bytes in 32."""
    result = checked(
        "llama-3.1-8b",
        "llama_context: n_seq_max     = 2",
        "llama_kv_cache:      CUDA0 KV buffer size =   544.00 MiB",
        kv_dtype="q8_0", context=4096,
    )  # fmt: skip

    assert 544 * MIB == 2 * 4096 * 32 * 2 * 8 * 128 * 34 // 32
    assert result.settings["n_ctx"] == 8192
    assert verdicts(result) == [("kv_pool", "CUDA0", "ok")]
