"""Everything a simulation needs beside its load, from the options; and one run of it."""

from __future__ import annotations

from typing import Any

from kvcalc import resolve
from kvcalc.api import simulate_plan as plan
from kvcalc.api.machine import gpu_count
from kvcalc.api.simulate_load import Load, positive
from kvcalc.api.simulate_settings import budget_settings, engine_settings, settings_of
from kvcalc.core.alloc import NEED_MAXIMUM
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import Warn
from kvcalc.core.results.simulate import Pool, SimulateResult, Solved
from kvcalc.core.simulate.job import FULL, STATE, GroupSpec
from kvcalc.core.simulate.run import Memory, run
from kvcalc.core.simulate.summary import summary
from kvcalc.core.simulate.tally import Tally
from kvcalc.core.size import model_info
from kvcalc.core.units import parse_count, shown
from kvcalc.workloads.statistics import skipped_warning

#: What a step lasts where neither a GPU nor the user says: a decode step of a small model.
STEP_SECONDS = 0.02
_ROWS = 60
#: Tokens that a request may reach where nothing bounds it.
_ENDLESS = 1 << 30


class Setup:
    """The pool, the settings and the clock that the options describe.

    Raises:
        KvcalcError: "usage" and what parsing the options raises.
    """

    def __init__(self, model: Model | None, asked: dict[str, Any]) -> None:
        self.model, self.asked = model, asked
        self.warnings: tuple[Warn, ...] = ()
        gpu, given = asked.get("gpu"), asked.get("set") or {}
        values = settings_of(given, self._numbers(), budget=gpu is not None)
        if asked.get("no_prefix_caching"):
            values["enable_prefix_caching"] = False
        named = resolve.gpu_of(gpu)[1] if gpu is not None else None
        self.gpus = gpu_count(named, asked.get("gpus"), asked.get("tp"))
        self.storage = self.weights = self.device = None
        if model is not None:
            self.storage = resolve.storage_of(
                model, asked.get("kv_dtype", "auto"), asked.get("k_dtype"), asked.get("v_dtype"),
                asked.get("dtype"),
            )  # fmt: skip
            self.weights = resolve.weights_of(
                model, asked.get("weights"), asked.get("weight_bytes")
            )
        if gpu is not None:
            self.device = plan.device_of(gpu, self.gpus, self.weights, model)
        length = values.get("max_model_len") or (model and model.max_context_tokens) or _ENDLESS
        self.layout = plan.layout_of(model, self.storage, values, self.gpus, length)
        values["enable_prefix_caching"], doubts = plan.caching(values, self.layout, model)
        self.warnings += doubts
        self.policy = asked.get("policy", "paged")
        self.basis = "exact"
        self.engine: dict[str, Any] = {}
        self.blocks, self.bytes = self._pool(budget_settings(given, values) if gpu else {})
        self.settings = engine_settings(values, self.engine, model)

    def _numbers(self) -> dict[str, Any]:
        """The options that are settings too, parsed."""
        found: dict[str, Any] = {"prefix_caching": self.asked.get("prefix_caching")}
        for key in ("max_batched_tokens", "max_requests", "block_size"):
            text = self.asked.get(key)
            if text is not None:
                found[key] = parse_count(text, f"--{key.replace('_', '-')}")
        text = self.asked.get("max_context")
        if text is not None:
            long = bool(self.asked.get("allow_long_context"))
            found["max_context"] = (
                parse_count(text, "--max-context")
                if self.model is None
                else resolve.context_of(self.model, text, allow_long=long, option="--max-context")
            )
        return found

    def _pool(self, settings: dict[str, object]) -> tuple[int, int | None]:
        """Blocks and bytes of one GPU's pool."""
        asked, model = self.asked, self.model
        blocks, size = plan.pool_blocks(asked.get("blocks"), asked.get("pool"), self.layout, model)
        if blocks is not None:
            return blocks, size
        if "gpu" not in asked:
            raise KvcalcError(
                "usage", "how much memory? give --blocks, --pool or --gpu",
                "--blocks N alone needs no MODEL",
            )  # fmt: skip
        if model is None:
            raise KvcalcError("usage", "--gpu needs a MODEL", "name one, or give --blocks")
        pool = plan.gpu_pool(model, self.gpus, settings, asked)
        self.basis, self.engine = pool.basis, dict(pool.settings)
        blocks = plan.blocks_in(pool.bytes, self.layout, model, f"--gpu {asked['gpu']}")
        return blocks, pool.bytes

    def _memory(self) -> Memory:
        groups, maximum = self.layout.groups, self.settings.max_model_len
        if self.policy == "paged" and self.asked.get("scheduler") != "static":
            return Memory(groups, self.blocks)
        if maximum is None and self.policy in NEED_MAXIMUM:
            raise KvcalcError(
                "usage", f"--max-context is missing: {self.policy} reserves by it",
                "give --max-context TOKENS, or --policy exact or paged",
            )  # fmt: skip
        # In one piece a token takes a slot in the layers of every group.
        attention = [g for g in groups if g.kind != STATE]
        blocks = (self.blocks - 1) // len(attention) + 1
        one = GroupSpec(FULL, self.layout.block_tokens)
        return Memory((one,), blocks, self.policy, maximum)

    def run(
        self, load: Load, *, rate: float | None = None, solved: Solved | None = None
    ) -> SimulateResult:
        """The answer; requests come at `rate` a second where it is given.

        Raises:
            KvcalcError: What reading the trace raises; "usage" for a clock that cannot be.
        """
        asked, model = self.asked, self.model
        wanted = asked.get("requests_per_second")
        if rate is None and wanted is not None:
            rate = positive(wanted, "--requests-per-second")
        no_doubts: tuple[Warn, ...] = ()
        factor = 1.0 if rate is None else load.factor(rate)
        timed = self._timed(load)
        step_seconds, ticks = self._step(load, timed=timed)
        work, doubts = plan.IDLE, no_doubts
        if model is not None and self.storage is not None and self.weights is not None:
            work, doubts = plan.work_of(model, self.storage, self.weights, self.gpus)
        speed = self.device.rate if self.device is not None and timed else None
        outcome = run(
            load,
            self._memory(),
            self.settings,
            scheduler=asked.get("scheduler", "vllm"),
            work=work,
            rate=speed,
            ticks=None if factor == 1 and ticks == 1 else (ticks or 1) / factor,
            tally=Tally(self._rows(), jobs=bool(asked.get("per_request"))),
        )
        token = model.token_bytes(self.storage) if model and self.storage else None
        facts = summary(
            outcome, step_seconds=step_seconds, token_bytes=token, skipped=load.workload.skipped
        )
        return SimulateResult(
            trace=load.workload.name,
            model=None if model is None else model_info(model),
            gpu=self.device.id if self.device else None,
            gpus=self.gpus,
            policy=self.policy,
            scheduler=asked.get("scheduler", "vllm"),
            clock="seconds" if timed else "steps",
            settings=self.settings._asdict(),
            pool=self._described(),
            step_seconds=step_seconds,
            requests_per_second=rate,
            solved=solved,
            chart=bool(asked.get("chart")) or not asked.get("no_chart"),
            warnings=(*self.warnings, *(doubts if timed else ()), *skipped_warning(load.workload)),
            **facts._asdict(),
        )

    def _timed(self, load: Load) -> bool:
        """Whether the clock has seconds.

        Raises:
            KvcalcError: "usage" where it was asked for and cannot be.
        """
        clock = self.asked.get("clock")
        able = self.device is not None and self.device.rate is not None and self.model is not None
        if clock not in {None, "seconds", "steps"}:
            raise KvcalcError("usage", f"--clock {shown(clock)}", "seconds or steps")
        if clock == "seconds" and not able:
            raise KvcalcError(
                "usage", "--clock seconds needs a MODEL and a --gpu of known bandwidth and FLOP/s",
                "or --clock steps, with --step-seconds",
            )  # fmt: skip
        if clock == "seconds" and load.unit == "steps":
            raise KvcalcError(
                "usage", "--clock seconds: the trace's arrivals count steps", "leave --clock out"
            )
        return able and clock != "steps" and load.unit != "steps"

    def _step(self, load: Load, *, timed: bool) -> tuple[float | None, float | None]:
        """Seconds of a step, where steps have any, and ticks of a unit of the trace's times."""
        text = self.asked.get("step_seconds")
        if timed:
            if text is not None:
                raise KvcalcError(
                    "usage", "--step-seconds is for --clock steps", "leave one of them out"
                )
            assert self.device is not None and self.device.rate is not None  # noqa: S101, PT018 - timed
            return None, plan.ticks_per_second(self.device.rate)
        given = None if text is None else positive(text, "--step-seconds")
        if load.unit != "seconds":
            return given, 1
        lasts = given or STEP_SECONDS
        if given is None:
            said = f"a step is taken to last {lasts:g} s: --gpu computes it, --step-seconds sets it"
            self.warnings = (*self.warnings, Warn("step_seconds_assumed", said))
        return lasts, 1 / lasts

    def _rows(self) -> int | None:
        text = self.asked.get("series")
        if text is None:
            return _ROWS
        return None if text == "all" else parse_count(text, "--series", minimum=0)

    def _described(self) -> Pool:
        layout = self.layout
        kinds = [f"{g.kind}({g.span})" if g.span else g.kind for g in layout.groups]
        attention = sum(g.kind != STATE for g in layout.groups)
        return Pool(
            self.blocks,
            layout.block_tokens,
            layout.block_bytes,
            self.bytes,
            self.blocks // attention * layout.block_tokens,
            tuple(kinds),
            self.basis,
        )
