"""LMDeploy: four fifths of the memory that is free once the weights are loaded, in blocks of 64.

    pool = cache_max_entry_count · (free after load − states − runtime buffer)

TurboMind has no runtime buffer; the PyTorch engine keeps logits of a prefill step and of two steps
of every request. Sources: LMDeploy 0.18.0 `messages.py`, `utils.py`,
`pytorch/engine/executor/base.py` and `pytorch/engine/cache_engine/schema.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvcalc.core.cache import Compressed, Full, Latent
from kvcalc.core.dtypes import storage
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.plan import Change, Plan, RankPlan
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.textbook import exact, with_pool
from kvcalc.core.units import MIB, pad
from kvcalc.engines.paging import Paged, charge, left, loaded, memory_lines, states_of, stored

NEWEST = "0.18.0"
_BLOCK, _STEP, _SHARE = 64, 8192, "0.8"
#: Where K and V come in 4 or 8 bits, a scale and a zero of the model's dtype stand beside each.
_QUANTISED = {"int8": 8, "int4": 4}
_FORMATS = ("bf16", "fp16", "fp8", "fp8_e5m2", "int8", "int4")
#: Payloads of a layer's block begin at multiples of this.
_ALIGN = 256
#: utils.get_max_batch_size: by the device's name, else 128.
_BATCHES = {"a100": 384, "a800": 384, "h100": 1024, "h800": 1024, "l20y": 1024, "h200": 1024}
_BATCH = 128
#: The pool must hold so many blocks, or the prefill step is halved.
_LEAST_BLOCKS = 16
_MORE = 0.9


class LmDeploy(Paged):
    """Rules of the TurboMind engine and of the PyTorch engine."""

    engine = "LMDeploy"

    def info(self, plan: Plan) -> EngineInfo:
        """The release and the settings in force."""
        settings = {
            "backend": _backend(plan),
            "cache_max_entry_count": float(_share(plan)),
            "cache_block_seq_len": self.page(plan),
            "max_batch_size": self.slots(plan),
            "session_len": plan.context,
        }
        return EngineInfo("lmdeploy", plan.version or NEWEST, {**settings, **plan.settings})

    def page(self, plan: Plan) -> int:
        """cache_block_seq_len: 64."""
        return int(plan.settings.get("cache_block_seq_len", plan.block_size or _BLOCK))

    def slots(self, plan: Plan) -> int:
        """max_batch_size: by GPU."""
        given = plan.settings.get("max_batch_size")
        if given is not None:
            return int(given)
        name = f"{plan.device.id or ''} {plan.device.name}".lower()
        return next((n for key, n in _BATCHES.items() if key in name), _BATCH)

    def token_bytes(self, plan: Plan, model: Model) -> int:
        """A block's bytes over its tokens; blocks are whole bytes a token but for alignment."""
        return -(-_block_bytes(plan, model, self.page(plan)) // self.page(plan))

    def page_bytes(self, plan: Plan, rank: RankPlan) -> int:
        """Every layer's payloads of a block, each aligned to 256 bytes in the PyTorch engine."""
        return _block_bytes(plan, rank.model, self.page(plan))

    def caches_prefixes(self, plan: Plan) -> bool:
        """Only if asked (`--enable-prefix-caching`)."""
        return bool(plan.settings.get("enable_prefix_caching", False))

    def lines(self, plan: Plan, model: Model, stage: int) -> tuple[BudgetLine, ...]:
        """Memory − runtime − weights − states − buffer, and a fifth of the rest.

        Raises:
            KvcalcError: "unknown_dtype" for a format it does not store; "usage" for pp and dcp;
                "unsupported_architecture".
        """
        _check(plan)
        given = self.given(plan, model)
        if given:
            return given
        from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415

        c, p = coefficients("lmdeploy"), plan.parallel
        lines = memory_lines(plan)
        weights = loaded(plan, stage)
        if weights is not None:
            lines.append(weights)
        other = [c["context"].bytes()] + [c["communication"].bytes()] * (p.tp > 1)
        ends = tuple(sum(part[i] for part in other) for i in range(3))
        lines.append(charge("other", (ends[0], ends[1], ends[2]), "CUDA context, libraries"))
        states = sum(s.fixed_bytes(plan.storage) for s in states_of(model))
        if states:
            count = self.slots(plan) + 2
            lines.append(exact("states", -states * count, f"{count:,} of them"))
        if _backend(plan) == "pytorch":
            lines.append(self._runtime(plan, model, lines))
        share, rest = _share(plan), max(left(lines).best, 0)
        note = f"1 − cache_max_entry_count {float(share):g}"
        lines.append(exact("unused", int(rest * share) - rest, note))
        return with_pool(lines)

    def _runtime(self, plan: Plan, model: Model, lines: Sequence[BudgetLine]) -> BudgetLine:
        """(max_prefill_token_num + 2 · max_batch_size) · vocabulary · 2 bytes.

        The step is halved until the pool holds 16 blocks.
        """
        step = int(plan.settings.get("max_prefill_token_num", _STEP))
        vocabulary, free = plan.model.vocab_size or 0, left(lines).best
        block = _block_bytes(plan, model, self.page(plan))
        while step > 1:
            size = (step + 2 * self.slots(plan)) * vocabulary * 2
            if int((free - size) * _share(plan)) >= _LEAST_BLOCKS * block:
                break
            step //= 2
        size = (step + 2 * self.slots(plan)) * vocabulary * 2
        return exact("activations", -size, f"logits of {step:,} tokens and 2 × {self.slots(plan)}")

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:
        """TurboMind's block manager, for the tightest rank."""
        rank = min(ranks, key=lambda r: self.rank_tokens(plan, r) or 0)
        size, page = self.page_bytes(plan, rank), self.page(plan)
        blocks = max(rank.pool.best, 0) // size if size else 0
        if _backend(plan) == "pytorch":
            return (f"CacheConfig(block_size={page}, num_gpu_blocks={blocks})",)
        lines = [
            f"[TM][INFO] [BlockManager] block_size = {size / MIB:g} MB",
            f"[TM][INFO] [BlockManager] max_block_count = {blocks}",
        ]
        if blocks * page < plan.context:
            lines.append(
                f"[TM][WARNING] No enough blocks for `session_len` ({plan.context}), "
                f"`session_len` truncated to {blocks * page}."
            )
        return tuple(lines)

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:
        """max_batch_size, and windows that keep every token."""
        found = self.slot_limit(plan, ranks, "max_batch_size")
        if plan.model.bends:
            found += (Limit("full_windows", "window layers are counted as full ones"),)
        return found

    def command(self, plan: Plan) -> str | None:
        """`lmdeploy serve api_server …`."""
        from kvcalc.engines.vllm.command import checkpoint  # noqa: PLC0415 - lists ask for none

        words = ["lmdeploy serve api_server", checkpoint(plan)]
        words += [f"--backend {_backend(plan)}"] if "backend" in plan.settings else []
        words.append(f"--session-len {plan.context}")
        words += [f"--tp {plan.parallel.tp}"] if plan.parallel.tp > 1 else []
        words += [f"--dp {plan.parallel.dp}"] if plan.parallel.dp > 1 else []
        words.append(f"--cache-max-entry-count {float(_share(plan)):g}")
        names = ("max_batch_size", "cache_block_seq_len", "max_prefill_token_num")
        words += [
            f"--{n.replace('_', '-')} {plan.settings[n]}" for n in names if n in plan.settings
        ]
        bits = _bits(plan)
        return " ".join([*words, f"--quant-policy {bits}"] if bits else words)

    def changes(self, plan: Plan) -> list[Change]:
        """A larger share, 8-bit K and V."""
        found = []
        known = plan.kv_pool is not None or plan.kv_pool_tokens is not None
        if not known and _share(plan) < Fraction(str(_MORE)):
            settings = {**plan.settings, "cache_max_entry_count": _MORE}
            found.append(Change("setting", f"--set cache_max_entry_count={_MORE}",
                                plan._replace(settings=settings)))  # fmt: skip
        if not _bits(plan) and plan.storage.k.key in {"bf16", "fp16"}:
            smaller = storage("int8", model=plan.storage.model.key)
            found.append(Change("kv_dtype", "--kv-dtype int8", plan._replace(storage=smaller)))
        return found


def _backend(plan: Plan) -> str:
    return str(plan.settings.get("backend", "turbomind"))


def _share(plan: Plan) -> Fraction:
    given = plan.settings.get("cache_max_entry_count")
    if given is not None:
        return Fraction(str(given))
    return Fraction(_SHARE) if plan.utilization is None else plan.utilization


def _bits(plan: Plan) -> int:
    """quant_policy: as set, or what the format of K and V asks for."""
    given = int(plan.settings.get("quant_policy", 0))
    key = plan.storage.k.key
    return given or _QUANTISED.get(key, {"fp8": 16, "fp8_e5m2": 17}.get(key, 0))


def _block_bytes(plan: Plan, model: Model, tokens: int) -> int:
    """Bytes of a block of `tokens` in every layer: K, V, and their scales and zeros.

    int8: d_k + d_v and four numbers of the model's dtype a head; int4 halves the former.
    """
    bits, aligned = _bits(plan), _backend(plan) == "pytorch"
    beside = 2 * plan.storage.model.block_bytes if bits in {4, 8} else 0
    total = 0
    for group in stored(model).groups:
        cache, parts = group.cache, []
        if isinstance(cache, Full):
            for dim in (cache.key_dim, cache.value_dim):
                parts += [cache.kv_heads * _element(plan, bits, dim), cache.kv_heads * beside]
        elif isinstance(cache, Latent):
            parts = [_element(plan, bits, cache.rank + cache.rope_dim), beside]
        else:
            parts = [cache.entry_bytes(plan.storage)]
        sizes = (part * tokens for part in parts)
        layer = sum(pad(size, _ALIGN) if aligned else size for size in sizes)
        total += len(group.layers) * layer
    return total


def _element(plan: Plan, bits: int, dim: int) -> int:
    """Bytes of `dim` elements of one head."""
    if bits in {4, 8}:
        return dim * bits // 8
    return dim if bits else dim * plan.storage.k.block_bytes


def _check(plan: Plan) -> None:
    s = plan.storage
    if s.k.key not in _FORMATS or s.k.key != s.v.key:
        raise KvcalcError(
            "unknown_dtype", f"LMDeploy stores no {s.label} KV cache",
            f"it has: {', '.join(_FORMATS)}",
        )  # fmt: skip
    if _bits(plan) in {16, 17} and _backend(plan) == "turbomind":
        raise KvcalcError(
            "unknown_dtype", f"LMDeploy's TurboMind stores no {s.label} KV cache",
            "--kv-dtype int8, or --set backend=pytorch",
        )  # fmt: skip
    p = plan.parallel
    if p.pp > 1 or p.dcp > 1:
        raise KvcalcError(
            "usage", f"LMDeploy has no --{'pp' if p.pp > 1 else 'dcp'}", "use --tp or --dp"
        )
    if any(type(g.cache) is Compressed for g in plan.model.groups):
        raise KvcalcError(
            "unsupported_architecture",
            f"LMDeploy's pools for {plan.model.id}'s compressed caches are not known",
            "take --engine vllm",
        )


LMDEPLOY = LmDeploy()
