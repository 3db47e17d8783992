"""Engines' own settings of a pool in host RAM: units, whose they are, what to pass."""

from __future__ import annotations

import pytest

from kvcalc.core.errors import KvcalcError
from kvcalc.engines.host_pools import chosen, settings_for

GIB = 2**30


@pytest.mark.parametrize(("given", "expected"), [
    ({"max_local_cpu_size": 50}, (50 * GIB, "rank", 256)),
    ({"LMCACHE_MAX_LOCAL_CPU_SIZE": "5.0"}, (5 * GIB, "rank", 256)),
    ({"max_local_cpu_size": "0.5", "chunk_size": 64}, (GIB // 2, "rank", 64)),
    ({"max-local-disk-size": "100"}, (100 * GIB, "rank", 256)),
    ({"hicache_size": "40"}, (40 * 10**9, "rank", None)),
    ({"kv_offloading_size": "100"}, (100 * GIB, "total", None)),
    ({"cache_ram": 8192}, (8 * GIB, "total", None)),
    ({"LMCACHE_CHUNK_SIZE": 128}, (None, "rank", 128)),
])  # fmt: skip
def test_units_and_whose(given: dict[str, object], expected: tuple[object, ...]) -> None:
    """LMCache and vLLM count GiB, SGLang 10⁹ B, llama.cpp MiB."""
    found = chosen(given, 1)
    assert found is not None
    assert (found.bytes, found.per, found.chunk) == expected


def test_no_settings_are_no_pool() -> None:
    assert chosen({}, 4) is None


@pytest.mark.parametrize(("given", "ranks", "code", "said"), [
    ({"hicache_sise": 40}, 1, "unknown_setting", "hicache_sise"),
    ({"hicache_ratio": 2}, 1, "usage", "says no size"),
    ({"hicache_size": 40, "cache_ram": 1}, 1, "usage", "two pools"),
    ({"hicache_size": "40GB"}, 1, "usage", "40GB is not a number"),
    ({"hicache_size": -1}, 1, "usage", "-1 is not a number"),
    ({"kv_offloading_size": "999999999999"}, 1, "usage", "kv_offloading_size is 999999999999"),
    ({"cache_ram": 8192}, 2, "usage", "once for all GPUs"),
    ({"chunk_size": 0}, 1, "usage", "chunk_size is 0"),
])  # fmt: skip
def test_what_is_refused(given: dict[str, object], ranks: int, code: str, said: str) -> None:
    with pytest.raises(KvcalcError) as error:
        chosen(given, ranks)
    assert error.value.code == code
    assert said in error.value.message


def test_a_given_pool_is_never_exceeded() -> None:
    """50 GiB are 53.687 GB, which SGLang takes whole; two ranks are 100 GiB of vLLM's."""
    found = {s.engine: s for s in settings_for(50 * GIB, 2, given=True)}
    assert found["lmcache"].argument == "LMCACHE_MAX_LOCAL_CPU_SIZE=50"
    assert found["sglang"].argument == "--hicache-size 53"
    assert found["sglang"].bytes == 53 * 10**9
    assert found["vllm"].argument == "--kv-offloading-size 100"
    assert (found["vllm"].per, found["vllm"].bytes) == ("total", 100 * GIB)
    assert "llama.cpp" not in found  # it has no ranks


def test_what_is_needed_is_always_held() -> None:
    """10⁹ + 1 B: 0.94 GiB (1,009,317,314 B), 2 GB, 954 MiB (1,000,341,504 B)."""
    found = {s.engine: s for s in settings_for(10**9 + 1, 1, given=False)}
    assert {e: s.value for e, s in found.items()} == {
        "lmcache": "0.94", "sglang": "2", "vllm": "0.94", "llama.cpp": "954",
    }  # fmt: skip
    assert all(s.bytes > 10**9 for s in found.values())


def test_a_setting_that_would_be_nothing_is_left_out() -> None:
    """SGLang reads a size of 0 as none given."""
    assert "sglang" not in [s.engine for s in settings_for(10**9 - 1, 1, given=True)]


def test_a_disk_has_its_own_setting() -> None:
    (found,) = settings_for(GIB, 1, given=True, disk=True)
    assert found.argument == "LMCACHE_MAX_LOCAL_DISK_SIZE=1"
