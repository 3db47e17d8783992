"""How engines size the KV they keep in host RAM: the setting, its unit, and what it counts.

LMCache: int(max_local_cpu_size · 1024³) bytes in each rank's allocator, max_local_disk_size
likewise; chunks of 256 tokens, and only whole ones (save_unfull_chunk is off). SGLang's host pool:
int(hicache_size · 10⁹ // bytes of a token) tokens in each rank, then up to a whole page. vLLM's
kv_offloading_size: GiB over all tp · pp ranks, for its own backend as for LMCache's. llama.cpp's
--cache-ram: MiB of the one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.results.offload import PoolSetting
from kvcalc.core.units import GIB, MAX_BYTES, MIB, parse_count, shown, trimmed

#: LMCache's default chunk.
LMCACHE_CHUNK = 256


class HostPool(NamedTuple):
    """One engine's setting. `hundredths`: it takes fractions, else whole units alone."""

    engine: str
    name: str
    #: How it is passed; {} is the value.
    argument: str
    unit: str
    unit_bytes: int
    per: str
    hundredths: bool
    spellings: tuple[str, ...] = ()
    disk: bool = False


HOST_POOLS = (
    HostPool("lmcache", "max_local_cpu_size", "LMCACHE_MAX_LOCAL_CPU_SIZE={}", "GiB", GIB, "rank",
             hundredths=True, spellings=("lmcache_max_local_cpu_size",)),
    HostPool("lmcache", "max_local_disk_size", "LMCACHE_MAX_LOCAL_DISK_SIZE={}", "GiB", GIB,
             "rank", hundredths=True, spellings=("lmcache_max_local_disk_size",), disk=True),
    HostPool("sglang", "hicache_size", "--hicache-size {}", "GB", 10**9, "rank", hundredths=False),
    HostPool("vllm", "kv_offloading_size", "--kv-offloading-size {}", "GiB", GIB, "total",
             hundredths=True),
    HostPool("llama.cpp", "cache_ram", "--cache-ram {}", "MiB", MIB, "total", hundredths=False),
)  # fmt: skip
_BY_NAME = {name: p for p in HOST_POOLS for name in (p.name, *p.spellings)}
_CHUNK = ("chunk_size", "lmcache_chunk_size")
#: Known, but no size by themselves.
_NO_SIZE = {"hicache_ratio": "a multiple of the GPU's own pool: give the size as --pool"}


class Chosen(NamedTuple):
    """What an engine's settings say: bytes of a rank or of all, and LMCache's chunk."""

    bytes: int | None
    per: str
    chunk: int | None
    setting: str
    disk: bool = False


def chosen(settings: Mapping[str, object], ranks: int) -> Chosen | None:
    """The pool that engine settings name; None without any.

    Raises:
        KvcalcError: "unknown_setting" with the nearest; "usage" for two pools, a value that is no
            size, or llama.cpp's over several ranks.
    """
    pool, size, chunk = None, None, None
    for given, value in settings.items():
        name = given.lower().replace("-", "_")
        if name in _CHUNK:
            chunk = parse_count(str(value), f"--set {shown(given)}")
            continue
        found = _BY_NAME.get(name)
        if found is None:
            raise _unknown(name, given)
        if pool is not None:
            raise KvcalcError(
                "usage", f"--set {pool.name} and --set {shown(given)} are two pools", "give one"
            )
        pool, size = found, _size(found, str(value), given)
    if pool is None:
        return None if chunk is None else Chosen(None, "rank", chunk, "chunk_size")
    if pool.engine == "llama.cpp" and ranks > 1:
        raise KvcalcError(
            "usage", f"--set {pool.name}: llama.cpp keeps it once for all GPUs",
            "leave --tp and --pp out",
        )  # fmt: skip
    if chunk is None and pool.engine == "lmcache":
        chunk = LMCACHE_CHUNK
    return Chosen(size, pool.per, chunk, pool.name, pool.disk)


def _size(pool: HostPool, text: str, given: str) -> int:
    from kvcalc.core.rates import parse_number  # noqa: PLC0415 - only who gives one

    option = f"--set {shown(given)}"
    hint = f"a number of {pool.unit}, like 50"
    value = int(parse_number(text, option, hint) * pool.unit_bytes)
    if not 0 < value <= MAX_BYTES:
        raise KvcalcError("usage", f"{option} is {shown(text)}", f"a size in {pool.unit}")
    return value


def _unknown(name: str, given: str) -> KvcalcError:
    if name in _NO_SIZE:
        return KvcalcError("usage", f"--set {name} says no size", f"it is {_NO_SIZE[name]}")
    names = [*_BY_NAME, *_CHUNK]
    close = nearest(name, names)
    near = f"nearest: {', '.join(close)}; " if close else ""
    return KvcalcError(
        "unknown_setting", f"no engine's host pool has a setting {shown(given)}",
        f"{near}all: {', '.join(p.name for p in HOST_POOLS)}, chunk_size",
    )  # fmt: skip


def settings_for(
    rank_bytes: int, ranks: int, *, given: bool, disk: bool = False
) -> tuple[PoolSetting, ...]:
    """What to pass to each engine: not more than a given pool, not less than what is needed.

    Args:
        rank_bytes: Bytes of one rank's pool.
        ranks: How many ranks have one.
        given: The pool is given (rounded down), else needed (rounded up).
        disk: The pool was named as a disk's, so host RAM's settings are no answer.
    """
    made = []
    for pool in HOST_POOLS:
        if pool.disk != disk or (pool.engine == "llama.cpp" and ranks > 1):
            continue
        target = rank_bytes if pool.per == "rank" else rank_bytes * ranks
        steps = 100 if pool.hundredths else 1
        exact = Fraction(target * steps, pool.unit_bytes)
        value = Fraction(exact.__floor__() if given else exact.__ceil__(), steps)
        if not value:
            continue
        text = trimmed(value).replace(",", "")
        size = int(value * pool.unit_bytes)
        argument = pool.argument.format(text)
        made.append(PoolSetting(pool.engine, argument, text, pool.unit, pool.per, size))
    return tuple(made)
