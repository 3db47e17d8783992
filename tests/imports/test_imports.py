"""What a start loads: the promise of a quick answer, kept by counting modules, not seconds."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

import kvcalc.core

#: Runs the program inside one interpreter and tells what it loaded and defined.
PROBE = """
import sys
before = set(sys.modules)
sys.argv = ["kvcalc", *sys.argv[1:]]
import kvcalc.__main__ as program
program.os._exit = sys.exit
try:
    program.main()
except SystemExit as left:
    code = left.code
found = sorted(set(sys.modules) - before)
classes = {
    value
    for name in found if name.startswith("kvcalc")
    for value in vars(sys.modules[name]).values()
    if isinstance(value, type) and "__dataclass_fields__" in vars(value)
    and value.__module__.startswith("kvcalc")
}
import json
named = sorted(f"{c.__module__}.{c.__qualname__}" for c in classes)
sys.stderr.write(json.dumps({"code": code, "modules": found, "dataclasses": named}))
"""
JSON_QUERY = ("size", "llama-3.1-8b", "--json")


def probe(environment: dict[str, str], *args: str) -> dict[str, Any]:
    """Exit code, modules and dataclasses of one command line."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *args], env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return found


def loaded(environment: dict[str, str], statement: str) -> set[str]:
    """Modules that a bare interpreter loads for a statement."""
    script = (
        f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def tops(modules: list[str]) -> set[str]:
    """Packages the modules belong to."""
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("args", [
    JSON_QUERY,
    ("size", "llama-3.1-70b,llama-3.1-8b", "-c", "4K,8K", "--json"),
    ("size", "--layers", "32", "--kv-heads", "8", "--head-dim", "128", "--json"),
    ("fit", "llama-3.1-70b", "--gpu", "h100", "--weights", "int4", "--engine", "none", "--json"),
    ("size", "no-such-model", "--json"),
], ids=" ".join)  # fmt: skip
def test_a_json_query_loads_neither_rich_nor_pydantic(
    environment: dict[str, str], args: tuple[str, ...]
) -> None:
    found = probe(environment, *args)

    assert found["code"] == (2 if "no-such-model" in args else 0)
    assert tops(found["modules"]) & {"rich", "pydantic", "pydantic_core", "jsonschema"} == set()


def test_plain_text_loads_neither_rich_nor_pydantic(environment: dict[str, str]) -> None:
    found = probe(environment, "size", "llama-3.1-8b")

    assert tops(found["modules"]) & {"rich", "pydantic"} == set()


def test_a_json_query_defines_at_most_15_dataclasses(environment: dict[str, str]) -> None:
    """Each costs 0.8 ms to define at every start."""
    found = probe(environment, *JSON_QUERY)["dataclasses"]

    assert 0 < len(found) <= 15, found


def test_a_json_query_passes_over_modules_it_does_not_need(environment: dict[str, str]) -> None:
    modules = set(probe(environment, *JSON_QUERY)["modules"])
    needless = {
        "importlib.metadata", "importlib.resources", "asyncio", "socket",
        "logging", "csv", "decimal", "unittest", "email", "http", "kvcalc.catalog.schema",
        "kvcalc.report.layout", "kvcalc.report.text", "kvcalc.core.weight_formats",
        "kvcalc.cli.help", "kvcalc.cli.fit", "kvcalc.api.fit",
    }  # fmt: skip

    assert modules & needless == set()


@pytest.mark.parametrize("args", [
    ("fit", "llama-3.1-8b", "--gpu", "h100", "--json"),
    ("speed", "llama-3.1-8b", "--gpu", "h100", "--json"),
    ("gpus", "--json"),
    ("models", "--json"),
], ids=" ".join)  # fmt: skip
def test_nothing_reads_this_machine_unasked(
    environment: dict[str, str], args: tuple[str, ...]
) -> None:
    modules = probe(environment, *args)["modules"]

    assert not {name for name in modules if name.startswith("kvcalc.detect")}
    assert set(modules).isdisjoint({"kvcalc.api.detect", "pynvml"})


def test_the_version_loads_only_kvcalcs_own_package(environment: dict[str, str]) -> None:
    found = probe(environment, "--version")

    assert found["code"] == 0
    assert set(found["modules"]) - {"__future__"} == {"kvcalc", "kvcalc.__main__"}


def test_importing_kvcalc_loads_nothing_else(environment: dict[str, str]) -> None:
    assert loaded(environment, "import kvcalc") - {"__future__"} == {"kvcalc"}


def test_a_name_loads_its_module_at_first_use(environment: dict[str, str]) -> None:
    found = loaded(environment, "import kvcalc; kvcalc.size('gpt-2')")

    assert "kvcalc.api.size" in found
    assert tops(sorted(found)) & {"typer", "rich", "pydantic"} == set()


def core_modules() -> list[str]:
    """Every module of kvcalc.core."""
    packages = pkgutil.walk_packages(kvcalc.core.__path__, "kvcalc.core.")
    return [module.name for module in packages]


def test_the_core_is_standard_library_only(environment: dict[str, str]) -> None:
    """All core modules at once: nothing third-party, and no other room of kvcalc."""
    modules = core_modules()
    found = loaded(environment, f"import {', '.join(modules)}")
    foreign = {n.partition(".")[0] for n in found} - set(sys.stdlib_module_names) - {"kvcalc"}
    rooms = {name for name in found if name.startswith("kvcalc")}

    assert len(modules) > 10
    assert foreign == set()
    assert {n for n in rooms if not n.startswith("kvcalc.core")} == {"kvcalc"}


@pytest.mark.parametrize("room", ["api", "catalog", "checkpoints", "detect", "engines", "report"])
def test_only_the_command_line_loads_typer(environment: dict[str, str], room: str) -> None:
    package = __import__(f"kvcalc.{room}", fromlist=["__path__"])
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"kvcalc.{room}.")]
    names = [name for name in names if not name.endswith((".__main__", ".schema"))]
    found = loaded(environment, f"import {', '.join(names)}")

    assert "typer" not in tops(sorted(found))
    assert not {name for name in found if name.startswith("kvcalc.cli")}
