"""llama.cpp, ik_llama.cpp and Ollama behind `core.plan.Rules`: a context is allocated at once.

    pool = memory − margin − runtime − weights of this GPU's layers − compute buffer

holds the caches of the layers on that GPU. With n_ctx (Ollama: num_ctx) set, the pool is what the
context allocates, if there is room; else the memory decides how long or wide a context may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvcalc.core.errors import KvcalcError
from kvcalc.core.fit import largest
from kvcalc.core.model import Model
from kvcalc.core.plan import Change, Interval, Plan, RankPlan, rank_plan, seats
from kvcalc.core.results.base import EngineInfo
from kvcalc.core.results.fit import BudgetLine, Limit
from kvcalc.core.results.size import EngineItem
from kvcalc.core.textbook import exact, with_pool
from kvcalc.core.units import pad
from kvcalc.engines.llamacpp import CELLS, MAX_SEQUENCES, Context, context
from kvcalc.engines.llamacpp_place import Place, cut, parts_of, places
from kvcalc.engines.llamacpp_rates import Rates, rates_of
from kvcalc.engines.llamacpp_setup import Setup, setup_of
from kvcalc.engines.paging import charge, left, memory_lines

#: Vendors on whose devices no runtime stands beside the buffers.
_NO_RUNTIME = frozenset({"Apple"})
#: Longest context that is tried where neither the model nor n_ctx ends it.
_END = 2**24


class LlamaCpp:
    """Rules of one of the three; `engine` names it."""

    def __init__(self, engine: str, newest: str) -> None:
        self.engine, self.newest = engine, newest

    def info(self, plan: Plan) -> EngineInfo:
        """The release and the settings in force."""
        s = setup_of(self.engine, plan)
        slots = s.n_seq_max or plan.requests
        settings: dict[str, Any] = {"n_ctx": s.n_ctx or slots * plan.context, "n_seq_max": slots}
        if self.engine == "ollama":
            settings = {"num_ctx": (s.n_ctx or slots * plan.context) // slots,
                        "num_parallel": slots}  # fmt: skip
        settings["n_ubatch" if self.engine != "ollama" else "num_batch"] = s.n_ubatch
        return EngineInfo(self.engine, plan.version or self.newest, {**settings, **plan.settings})

    def ranks(self, plan: Plan) -> list[RankPlan]:
        """The GPUs of one replica in order; layers are split between them, never heads.

        Raises:
            KvcalcError: "unsupported_architecture", "unknown_dtype", "not_divisible", "usage" for
                what the engine refuses.
        """
        if plan.parallel.dcp > 1 or plan.parallel.ep > 1:
            name = "dcp" if plan.parallel.dcp > 1 else "ep"
            raise KvcalcError("usage", f"{self.engine} has no --{name}", "GPUs split the layers")
        s = setup_of(self.engine, plan)
        self.held(s, plan.model, max(plan.context, 1), 1)  # refusals come before figures
        ranks = []
        for stage, place in enumerate(self._places(plan, s)):
            (seat,) = seats(plan, stage)  # every GPU is a stage
            lines = self._given(plan) or self._budget(seat.plan, s, place)
            ranks.append(rank_plan(cut(plan.model, place.layers), seat, lines))
        return ranks

    def _places(self, plan: Plan, s: Setup) -> tuple[Place, ...]:
        gpus = plan.parallel.tp * plan.parallel.pp
        # Without tensor_split by the memory that is free on each (`llama_model_load_from_file`).
        shares = s.shares or tuple(Fraction(memory.bytes) for memory, _ in plan.mixed)
        return places(
            len(plan.model.layers), gpus, s.n_gpu_layers, shares, first=s.output_first
        )  # fmt: skip

    def held(self, s: Setup, model: Model, n_ctx: int, slots: int) -> Context:
        """What a context of `n_ctx` cells for `slots` sequences allocates of these layers."""
        return context(
            model, n_ctx=n_ctx, n_seq_max=slots, n_ubatch=s.n_ubatch, n_batch=s.n_batch,
            kv_unified=s.unified, swa_full=s.swa_full, flash_attn=s.flash, type_k=s.type_k,
            type_v=s.type_v, n_rs_seq=s.drafts,
        )  # fmt: skip

    def _here(self, plan: Plan, s: Setup, rank: RankPlan, n_ctx: int, slots: int) -> int:
        """Bytes of the caches on one GPU; none where they stay on the host."""
        if s.host_kv:
            return 0
        return self._rates(plan, s, self._places(plan, s)[rank.stage]).bytes(n_ctx, slots)

    def _rates(self, plan: Plan, s: Setup, place: Place) -> Rates:
        def probe(model: Model, n_ctx: int, slots: int) -> tuple[EngineItem, ...]:
            return self.held(s, model, n_ctx, slots).items

        return rates_of(plan.model, place.layers, s, probe)

    def _given(self, plan: Plan) -> tuple[BudgetLine, ...]:
        if plan.kv_pool is not None:
            return (exact("kv_pool", plan.kv_pool, "given"),)
        return ()

    def _budget(self, plan: Plan, s: Setup, place: Place) -> tuple[BudgetLine, ...]:
        rates = self._rates(plan, s, place)
        if plan.kv_pool_tokens is not None:
            size = rates.bytes(plan.kv_pool_tokens, s.n_seq_max or 1)
            return (exact("kv_pool", size, f"{plan.kv_pool_tokens:,} tokens, given"),)
        lines = memory_lines(plan)
        share = plan.utilization
        if share is not None and share < 1:
            rest = lines[0].bytes - int(lines[0].bytes * share)
            lines.append(exact("unused", -rest, f"utilization {float(share):g}"))
        if s.margin:
            lines.append(exact("margin", -s.margin, s.margin_note))
        lines += self._runtime(plan)
        parts = parts_of(plan)
        if parts is not None:
            here, layers = len(place.layers), max(len(plan.model.layers), 1)
            best, low, high = (n * here // layers for n in parts.repeating)
            out = parts.output if place.output else 0
            sure = plan.weights.basis if here == layers else "estimated"
            note = plan.weights.format or "as given"
            note += f", {here} of {layers} layers" if here < layers else ""
            lines.append(charge("weights", (best + out, low + out, high + out), note, sure))
        slots = s.n_seq_max or plan.requests
        if place.layers or place.output:
            buffer = self._compute(plan, s, _cells(plan, s))
            ends = (buffer.best, buffer.low, buffer.high)
            lines.append(charge("activations", ends, "compute buffer"))
        if s.n_ctx is not None and not s.host_kv:
            lines.append(_spare(lines, rates.bytes(s.n_ctx, slots)))
        return with_pool(lines)

    def _runtime(self, plan: Plan) -> list[BudgetLine]:
        """What a GPU's runtime holds; Ollama keeps a minimum free, which covers it."""
        from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415 - for budgets only

        c, apple = coefficients(self.engine), plan.device.vendor in _NO_RUNTIME
        if self.engine == "ollama":
            least = c["minimum_metal" if apple else "minimum"].bytes()
            return [charge("other", least, "Ollama keeps it free")]
        return [] if apple else [charge("other", c["context"].bytes(), "runtime of the GPU")]

    def _compute(self, plan: Plan, s: Setup, cells: int) -> Interval:
        """The compute buffer of a context whose sequences see so many cells."""
        from kvcalc.engines.coefficients import coefficients  # noqa: PLC0415 - for budgets only
        from kvcalc.engines.llamacpp_compute import compute_bytes, widths  # noqa: PLC0415

        outputs = s.n_ubatch
        if s.few_outputs:
            outputs = (s.n_seq_max or plan.requests) * (1 + s.drafts)
        return compute_bytes(
            plan, widths(plan), n_ctx=cells, ubatch=min(s.n_ubatch, s.n_batch), outputs=outputs,
            flash=s.flash is not False, coefficients=coefficients(self.engine),
        )  # fmt: skip

    def _grown(self, plan: Plan, s: Setup, cells: int) -> int:
        """What the compute buffer takes more than the budget says, for more cells."""
        known = plan.kv_pool is not None or plan.kv_pool_tokens is not None
        asked = _cells(plan, s)
        if known or s.n_ctx is not None or cells <= asked:
            return 0
        return self._compute(plan, s, cells).best - self._compute(plan, s, asked).best

    def request_bytes(self, plan: Plan, rank: RankPlan, tokens: int) -> int:
        """A slot's share of a context; alone, a context of that many cells."""
        return self._here(plan, setup_of(self.engine, plan), rank, tokens, 1)

    def requests(self, plan: Plan, rank: RankPlan, pool: int, tokens: int) -> int:
        """Slots of `tokens` each that the pool holds, or that the context of n_ctx has."""
        s = setup_of(self.engine, plan)
        if pool < 0:
            return 0
        if s.n_ctx is not None:
            slots = s.n_seq_max or plan.requests
            if self._here(plan, s, rank, s.n_ctx, slots) > pool:
                return 0
            return _in_slots(s, slots, tokens)
        most = s.n_seq_max or MAX_SEQUENCES
        if not s.unified and s.n_seq_max is None:
            room = pool - self._grown(plan, s, pad(tokens, CELLS))
            one, two = (self._here(plan, s, rank, n * tokens, n) for n in (1, 2))
            # Slots are alike; only a first one of a few tokens has a smaller batch.
            return 0 if one > room else min(max(room * 2 // two, 1) if two else most, most)
        return largest(lambda n: self.needed(plan, rank, tokens, n) <= pool, most)

    def needed(self, plan: Plan, rank: RankPlan, tokens: int, requests: int) -> int:
        """The context that holds `requests` slots of `tokens`, or the set one if it does."""
        s = setup_of(self.engine, plan)
        if requests < 1:
            return 0
        slots = max(s.n_seq_max or (plan.requests if s.n_ctx else requests), 1)
        if s.n_ctx is not None and _in_slots(s, slots, tokens) >= requests:
            return self._here(plan, s, rank, s.n_ctx, slots)
        slots = min(max(slots, requests), MAX_SEQUENCES)
        # Slots are padded apart; unified ones share the cells.
        cells = requests * tokens if s.unified else slots * tokens
        each = pad(cells if s.unified else tokens, CELLS)
        return self._here(plan, s, rank, cells, slots) + self._grown(plan, s, each)

    def block_tokens(self, plan: Plan) -> int | None:  # noqa: ARG002 - one interface
        """Contexts are multiples of 256 cells."""
        return CELLS

    def shared_tokens(self, plan: Plan) -> int:  # noqa: ARG002 - one interface
        """Each slot keeps its own cells."""
        return 0

    def block_bytes(self, plan: Plan, rank: RankPlan) -> int | None:  # noqa: ARG002 - one interface
        """A context is allocated in one piece."""
        return None

    def rank_tokens(self, plan: Plan, rank: RankPlan) -> int | None:
        """Cells of the set context, or of the largest that fits the pool."""
        s = setup_of(self.engine, plan)
        slots = s.n_seq_max or plan.requests
        if s.n_ctx is not None:
            return self.held(s, plan.model, s.n_ctx, slots).n_ctx
        if s.host_kv or not self._here(plan, s, rank, CELLS * slots, slots):
            return None

        def fits(n: int) -> bool:
            cells = n * CELLS
            each = cells * slots if s.unified else cells
            size = self._here(plan, s, rank, cells * slots, slots) + self._grown(plan, s, each)
            return size <= rank.pool.best

        return largest(fits, _END // CELLS) * CELLS * slots

    def items(self, plan: Plan) -> tuple[EngineItem, ...]:
        """The caches of all layers that the plan's context allocates."""
        s = setup_of(self.engine, plan)
        slots = s.n_seq_max or plan.requests
        return self.held(s, plan.model, s.n_ctx or slots * plan.context, slots).items

    def startup_lines(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[str, ...]:
        """llama.cpp's own lines."""
        from kvcalc.engines.llamacpp_lines import startup_lines  # noqa: PLC0415 - lists ask not

        s = setup_of(self.engine, plan)
        slots = s.n_seq_max or plan.requests
        made = self.held(s, plan.model, s.n_ctx or slots * plan.context, slots)
        return startup_lines(plan, s, made, ranks)

    def limits(self, plan: Plan, ranks: Sequence[RankPlan]) -> tuple[Limit, ...]:
        """Slots, host memory, formats."""
        from kvcalc.engines.llamacpp_lines import limits_of  # noqa: PLC0415 - as above

        s = setup_of(self.engine, plan)
        on_host = len(plan.model.layers) - sum(len(r.model.layers) for r in ranks)
        slots = s.n_seq_max or plan.requests
        made = self.held(s, plan.model, s.n_ctx or slots * plan.context, slots)
        return limits_of(s, made, on_host)

    def command(self, plan: Plan) -> str | None:
        """`llama-server …` or Ollama's variables."""
        from kvcalc.engines.llamacpp_lines import command_of  # noqa: PLC0415 - as above

        return command_of(plan, setup_of(self.engine, plan))

    def changes(self, plan: Plan) -> list[Change]:
        """Single changes of the engine's settings that may help."""
        from kvcalc.engines.llamacpp_lines import changes_of  # noqa: PLC0415 - as above

        return changes_of(plan, setup_of(self.engine, plan))


class IkLlamaCpp(LlamaCpp):
    """ik_llama.cpp: its own caches."""

    def held(self, s: Setup, model: Model, n_ctx: int, slots: int) -> Context:
        """One cache for all slots; latents as mla_attn says."""
        from kvcalc.engines.llamacpp_ik import context as ik_context  # noqa: PLC0415

        made = ik_context(
            model, n_ctx, slots, flash=s.flash is not False, mla=s.mla, type_k=s.type_k,
            type_v=s.type_v,
        )  # fmt: skip
        return Context(made.n_ctx, made.n_ctx_seq, slots, s.n_ubatch, made.items)


def _cells(plan: Plan, s: Setup) -> int:
    """Cells that a sequence of the plan's context sees."""
    slots = s.n_seq_max or plan.requests
    total = s.n_ctx or slots * plan.context
    return pad(total if s.unified else total // slots, CELLS)


def _in_slots(s: Setup, slots: int, tokens: int) -> int:
    """Requests of `tokens` at once in a context of n_ctx: unified slots share its cells.

    Ollama cuts a request at num_ctx, whatever the cells are padded to.
    """
    if s.engine == "ollama" and tokens > (s.n_ctx or 0) // slots:
        return 0
    cells = pad(s.n_ctx or 0, CELLS)
    if s.unified:
        return min(slots, cells // tokens) if tokens else slots
    return slots if tokens <= (pad(cells // slots, CELLS) or CELLS) else 0


def _spare(lines: Sequence[BudgetLine], allocated: int) -> BudgetLine:
    """What is left beside the context that is allocated; nothing where it does not fit."""
    best, low, high = (max(n - allocated, 0) for n in left(lines))
    return BudgetLine("spare", -best, "estimated", -low, -high, "free beside the set context")


LLAMA_CPP = LlamaCpp("llama.cpp", "0c1e57098")
IK_LLAMA_CPP = IkLlamaCpp("ik_llama.cpp", "2025-07")
OLLAMA = LlamaCpp("ollama", "0.17.0")
