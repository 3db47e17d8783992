"""Options of fit to a plan: machine, parallelism, weights, context, pool."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from kvcalc import resolve
from kvcalc.api.auto import is_auto
from kvcalc.api.machine import gpu_count, machine_text
from kvcalc.core import fit as core
from kvcalc.core.dtypes import GGML_ENGINES
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.fit import GpuInfo, GpuMember
from kvcalc.core.shard import Parallel
from kvcalc.core.units import parse_bytes, parse_count, parse_share, shown
from kvcalc.shape import Count

if TYPE_CHECKING:
    from kvcalc.catalog.gpus import Gpu


#: The rules that judge where none are named.
DEFAULT_ENGINE = "vllm"
#: GPUs of one mixed machine; more are a typing error.
_MOST_MIXED = 1024


class EngineChoice(NamedTuple):
    """Whose rules judge a plan: None is the textbook's."""

    rules: core.Rules | None
    version: str | None
    settings: Mapping[str, Any]
    #: What --kv-dtype auto means for it; None is the model's own 16-bit type.
    kv_dtype: str | None = None
    #: Several GPUs share the layers, not the heads.
    splits_layers: bool = False

    def shared(self, parallel: Parallel) -> Parallel:
        """The parallelism as this engine does it: llama.cpp gives each GPU whole layers."""
        if not self.splits_layers:
            return parallel
        if parallel.pp_layers:
            raise KvcalcError(
                "usage", "--pp-layers: llama.cpp places layers by shares",
                "--set tensor_split=1,2 gives each GPU its share",
            )  # fmt: skip
        return parallel._replace(tp=1, pp=parallel.tp * parallel.pp)


def engine_of(asked: dict[str, Any]) -> EngineChoice:
    """The engine of --engine, --engine-version and --set.

    Raises:
        KvcalcError: "unknown_engine"; "unknown_setting"; "usage" for a version where there is one.
    """
    name = asked.get("engine", DEFAULT_ENGINE)
    version = resolve.version_of(asked.get("engine_version"))
    given = asked.get("set", {})
    if name == "none" and version is None and not given:
        return EngineChoice(None, None, {})
    from kvcalc.engines.registry import engine_of as known  # noqa: PLC0415 - engines alone
    from kvcalc.engines.registry import settings_of  # noqa: PLC0415
    from kvcalc.engines.rules import rules_for  # noqa: PLC0415

    engine = known(name)
    settings = settings_of(engine, given)
    if version is not None and not engine.versioned:
        raise KvcalcError("usage", f"--engine-version: {engine.id} has one set of rules", None)
    ggml = engine.id in GGML_ENGINES
    from kvcalc.engines.coefficients import look_in  # noqa: PLC0415

    look_in((resolve.app_dir(),))
    kv_dtype = "fp16" if ggml else None
    return EngineChoice(rules_for(engine.id), version, settings, kv_dtype, ggml)


def plan_of(
    model: Model, memory: core.Memory | None, parallel: Parallel, asked: dict[str, Any]
) -> core.Plan:
    """The deployment that the options describe.

    Raises:
        KvcalcError: "usage" without a size of the weights, and what parsing the options raises.
    """
    allow_long = bool(asked.get("allow_long_context"))
    weights = resolve.weights_of(model, asked.get("weights"), asked.get("weight_bytes"))
    pool, pool_tokens = asked.get("kv_pool"), asked.get("kv_pool_tokens")
    if pool is not None and pool_tokens is not None:
        raise KvcalcError("usage", "--kv-pool and --kv-pool-tokens say the same", "give one")
    if weights.bytes is None and pool is None and pool_tokens is None:
        raise KvcalcError(
            "usage", f"the weights' size of {model.id} is not known",
            "give --weight-bytes, --parameters with --weights, or the pool itself as --kv-pool",
        )  # fmt: skip
    engine = engine_of(asked)
    kv_dtype = asked.get("kv_dtype", "auto")
    if kv_dtype == "auto" and engine.kv_dtype is not None:
        kv_dtype = engine.kv_dtype
    block, average = asked.get("block_size"), asked.get("average_context")
    typical = (
        None
        if average is None
        else resolve.context_of(model, average, allow_long=allow_long, option="--average-context")
    )
    tokens, shared = _lengths(model, typical, asked)
    copies = resolve.prefix_copies_of(asked.get("prefix_copies"), asked.get("shared_prefix"))
    page = None if block is None else parse_count(block, "--block-size")
    return core.Plan(
        model=model,
        storage=resolve.storage_of(
            model, kv_dtype, asked.get("k_dtype"), asked.get("v_dtype"), asked.get("dtype")
        ),
        parallel=engine.shared(parallel),
        weights=weights,
        memory=memory,
        context=tokens,
        requests=parse_count(asked.get("requests", 1), "-n"),
        utilization=utilization_of(asked["utilization"]) if "utilization" in asked else None,
        reserve=parse_bytes(asked["reserve"], "--reserve") if "reserve" in asked else 0,
        kv_pool=None if pool is None else parse_bytes(pool, "--kv-pool"),
        kv_pool_tokens=None
        if pool_tokens is None
        else parse_count(pool_tokens, "--kv-pool-tokens"),
        block_size=page,
        shared_prefix=shared,
        prefix_copies=copies,
        average_context=typical,
        allow_long=allow_long,
        version=engine.version,
        settings=engine.settings,
        rules=engine.rules,
    )  # fmt: skip


def _lengths(model: Model, average: int | None, asked: dict[str, Any]) -> tuple[int, int]:
    """Tokens of a request, and of the prefix that all share.

    Where the context is solved for, it begins beyond the prefix.

    Raises:
        KvcalcError: "usage" for a prefix that leaves nothing of a request.
    """
    context, prefix = asked.get("context"), asked.get("shared_prefix")
    allow_long = bool(asked.get("allow_long_context"))
    shared = 0 if prefix is None else parse_count(prefix, "--shared-prefix")
    if context is not None:
        tokens = resolve.context_of(model, context, allow_long=allow_long)
    else:
        tokens = resolve.default_context(model)
        if str(asked.get("solve")).lower() == "context" and shared >= tokens:
            tokens = resolve.context_of(model, shared + 1, allow_long=allow_long)
    check_own_tokens(shared, tokens, "-c")
    if average is not None:
        check_own_tokens(shared, average, "--average-context")
    return tokens, shared


def check_own_tokens(shared: int, tokens: int, option: str) -> None:
    """Refuse requests that are nothing but the prefix they share: any number would fit.

    Raises:
        KvcalcError: "usage".
    """
    if shared and shared >= tokens:
        raise KvcalcError(
            "usage", f"--shared-prefix {shared:,} leaves nothing of {option} {tokens:,} to tell "
            "requests apart", "give a shorter prefix or a longer context",
        )  # fmt: skip


class Machine(NamedTuple):
    """One GPU, its memory where it is known, and the count that a name like 8xh100 says.

    Of a mixed machine the first; `mixed` has all of them in order.
    """

    info: GpuInfo
    memory: core.Memory | None
    device: core.Device
    count: int | None  # type: ignore[assignment]  # hides tuple.count, which nobody calls here
    mixed: tuple[tuple[core.Memory, core.Device], ...] = ()


def plan_on(machine: Machine, model: Model, asked: dict[str, Any]) -> core.Plan:
    """The options of fit as a plan on a machine.

    Raises:
        KvcalcError: What `parallel_of` and `plan_of` raise; "usage" for data parallelism over GPUs
            that differ, or GPUs of several vendors in one engine.
    """
    parallel = parallel_of(gpus_of(machine.count, asked.get("gpus")), sizes_of(asked))
    if machine.mixed:
        _check_mixed(machine, parallel, asked)
    plan = plan_of(model, machine.memory, parallel, asked)
    return plan._replace(device=machine.device, mixed=machine.mixed)


def _check_mixed(machine: Machine, parallel: Parallel, asked: dict[str, Any]) -> None:
    name = machine.info.id
    if parallel.dp > 1:
        raise KvcalcError(
            "usage", f"--dp {parallel.dp} on {name}: replicas on GPUs that differ hold different "
            "loads", "plan each replica by itself",
        )  # fmt: skip
    vendors = dict.fromkeys(device.vendor for _, device in machine.mixed)
    engine = asked.get("engine", DEFAULT_ENGINE)
    if len(vendors) > 1 and engine != "none" and engine not in GGML_ENGINES:
        raise KvcalcError(
            "usage", f"{engine} does not run over GPUs of {' and '.join(vendors)} at once",
            "--engine llama.cpp does, or plan them apart",
        )  # fmt: skip


def sizes_of(asked: dict[str, Any]) -> dict[str, Any]:
    """--tp (None if it is not given), --pp, --dp, --dcp, --ep and --pp-layers."""
    rest = {name: asked.get(name, 1) for name in ("pp", "dp", "dcp", "ep")}
    return {"tp": asked.get("tp"), **rest, "pp_layers": asked.get("pp_layers", ())}


def machine_of(gpu: str | None, gpu_memory: Count | None) -> Machine:
    """The GPU of --gpu or --gpu-memory; of neither, one whose pool is given.

    Raises:
        KvcalcError: "usage" for both; "unknown_gpu".
    """
    if gpu is not None and gpu_memory is not None:
        raise KvcalcError(
            "usage", "--gpu and --gpu-memory are two machines",
            "name a GPU or give its memory; --reserve leaves a part of it alone",
        )  # fmt: skip
    if isinstance(gpu, str) and "+" in gpu:
        return _mixed(gpu)
    if gpu is not None:
        found, count = resolve.gpu_of(gpu)
        memory, device = memory_of(found), device_of(found)
        info = GpuInfo(found.id, found.name, 1, memory.bytes, memory.basis)
        return Machine(info, memory, device, count)
    if gpu_memory is not None:
        size = parse_bytes(gpu_memory, "--gpu-memory")
        info = GpuInfo(None, "the given GPU", 1, size, "exact")
        return Machine(info, core.Memory(size), core.Device(), None)
    return Machine(GpuInfo(None, "the given pool", 1, None, "exact"), None, core.Device(), None)


def _mixed(name: str) -> Machine:
    """GPUs that differ in one machine: 5070ti+5090, 2x4090+5090."""
    found: list[Gpu] = []
    for part in name.split("+"):
        if not part.strip():
            raise KvcalcError(
                "usage", f"--gpu {shown(name)} names no GPU on one side of a +",
                "like --gpu 4090+3090",
            )  # fmt: skip
        if is_auto(part):
            raise KvcalcError(
                "usage", f"--gpu {shown(name)}: auto is the whole machine",
                "--gpu auto alone, or name each GPU",
            )  # fmt: skip
        gpu, count = resolve.gpu_of(part.strip())
        found += [gpu] * (count or 1)
        if len(found) > _MOST_MIXED:
            raise KvcalcError("usage", f"--gpu {shown(name)}: more than {_MOST_MIXED} GPUs", None)
    if all(gpu.id == found[0].id for gpu in found):
        return machine_of(machine_text(gpu.id for gpu in found), None)
    kinds = tuple((memory_of(gpu), device_of(gpu)) for gpu in found)
    small = min(found, key=lambda gpu: gpu.memory_bytes)
    label = machine_text(gpu.id for gpu in found)
    members = tuple(GpuMember(g.id, g.name, g.memory_bytes, g.basis) for g in found)
    info = GpuInfo(label, label, len(found), small.memory_bytes, small.basis, members)
    return Machine(info, *kinds[0], len(found), kinds)


def memory_of(gpu: Gpu) -> core.Memory:
    """What a program sees of the GPU's memory."""
    return core.Memory(gpu.memory_bytes, gpu.basis, gpu.low_bytes, gpu.high_bytes)


def device_of(gpu: Gpu) -> core.Device:
    """What engines ask of the GPU beside its memory."""
    return core.Device(
        id=gpu.id,
        name=gpu.name,
        vendor=gpu.vendor,
        architecture=str(gpu.entry.get("architecture", "")),
        dtypes=frozenset(gpu.dense_flops),
        unified_memory=gpu.unified_memory,
    )


def gpus_of(named: int | None, gpus: Count | None) -> int | None:
    """The count of 8xh100 or of --gpus, which must agree; None if neither says one.

    Raises:
        KvcalcError: "usage".
    """
    return None if named is None and gpus is None else gpu_count(named, gpus, None)


def parallel_of(gpus: int | None, sizes: dict[str, Any]) -> Parallel:
    """--gpus alone is tp; else tp · pp · dp must equal it."""
    tp = sizes.pop("tp")
    alone = tp is None and all(sizes[k] in {1, "1"} for k in ("pp", "dp"))
    alone = alone and not sizes["pp_layers"]
    if gpus is not None and alone:
        return resolve.parallel_of(gpus, **sizes)
    parallel = resolve.parallel_of(1 if tp is None else tp, **sizes)
    if gpus is not None and parallel.gpus != gpus:
        if tp is None and gpus % parallel.gpus == 0:
            return parallel._replace(tp=gpus // parallel.gpus)
        raise KvcalcError(
            "usage",
            f"--tp {parallel.tp} × --pp {parallel.pp} × --dp {parallel.dp} is {parallel.gpus} "
            f"GPUs, not {gpus}",
            "leave --gpus out, or make the product equal it",
        )
    return parallel


def gpu_options(asked: dict[str, Any], parallel: Parallel) -> dict[str, Any]:
    """The options that say this many GPUs, in the place of those that were given."""
    out: dict[str, Any] = {"tp": parallel.tp} if "tp" in asked else {}
    if "gpu" in asked:
        found, named = resolve.gpu_of(asked["gpu"])
        if named is not None:
            out["gpu"] = f"{parallel.gpus}x{found.id}"
    if "gpus" in asked or not out:
        out["gpus"] = parallel.gpus
    return out


def utilization_of(text: str | float) -> Fraction:
    """The share of the memory to use, above 0.

    Raises:
        KvcalcError: "usage".
    """
    share = parse_share(text, "--utilization")
    if not share:
        raise KvcalcError("usage", "--utilization is 0", "a share above 0, up to 1, like 0.92")
    return share
