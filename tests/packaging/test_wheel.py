"""sdist and wheel: what is in them, and that the program works where only the wheel is."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kvcalc import __version__

pytestmark = pytest.mark.packaging
ROOT = Path(__file__).resolve().parent.parent.parent
_needed = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
needs_build = pytest.mark.skipif(bool(_needed), reason=f"not installed: {', '.join(_needed)}")
Python = Callable[..., "subprocess.CompletedProcess[str]"]
SIZE = ("size", "llama-3.1-8b", "--json")
WHERE = "import kvcalc.catalog.locate as l; print(l.data_dir('presets'))"


def call(*args: str | Path, **keywords: object) -> subprocess.CompletedProcess[str]:
    """A command that must succeed."""
    done = subprocess.run(  # type: ignore[call-overload]
        [str(a) for a in args], capture_output=True, text=True, check=False, **keywords
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built from it, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    """The one wheel."""
    (found,) = dist.glob("*.whl")
    return found


def fresh(folder: Path) -> Path:
    """A new virtual environment that sees this one's dependencies; its Python."""
    venv.create(folder, with_pip=False)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    found = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    site = Path(found.stdout.strip())
    # After the environment's own packages, and without a kvcalc installed in this one.
    paths = [p for p in sys.path if p.endswith("-packages") and Path(p) != site]
    (site / "dependencies.pth").write_text("".join(f"{p}\n" for p in paths))
    return python


def install(python: Path, *what: str | Path) -> None:
    """Install without network and without dependencies."""
    site = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    prefix = python.parent.parent
    call(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
        "--no-build-isolation", "--no-cache-dir", "--ignore-installed", "--prefix", prefix, *what,
        cwd=site.stdout.strip(),
    )  # fmt: skip


@needs_build
def test_the_wheel_holds_program_data_and_completions(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = f"kvcalc-{__version__}.data/data/share"
    presets = [p.relative_to(ROOT) for p in (ROOT / "presets").rglob("*") if p.is_file()]
    modules = [p.relative_to(ROOT) for p in (ROOT / "kvcalc").rglob("*.py")]

    assert {m.as_posix() for m in modules} <= names
    assert {f"kvcalc/{p.as_posix()}" for p in presets} <= names
    assert "kvcalc/presets/index.json" in names
    assert "kvcalc/py.typed" in names
    assert {f"kvcalc/completions/{n}" for n in os.listdir(ROOT / "completions")} <= names
    assert f"{data}/bash-completion/completions/kvcalc" in names
    assert f"{data}/zsh/site-functions/_kvcalc" in names
    assert f"{data}/fish/vendor_completions.d/kvcalc.fish" in names
    assert f"kvcalc-{__version__}.dist-info/licenses/LICENSE" in names
    assert f"kvcalc-{__version__}.dist-info/entry_points.txt" in names
    assert not [n for n in names if "__pycache__" in n or n.startswith("tests/")]


@needs_build
def test_the_sdist_holds_what_tests_and_builds_need(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    wanted = {
        "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE",
        "presets/index.json", "completions/_kvcalc", "tests/conftest.py",
        "tests/packaging/test_wheel.py", "kvcalc/py.typed",
    }  # fmt: skip

    assert wanted <= names
    assert not [n for n in names if "__pycache__" in n or "/." in n]


@needs_build
def test_the_installed_wheel_answers_from_another_folder(
    wheel: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    python = fresh(tmp_path / "venv")
    install(python, wheel)
    del environment["PYTHONPATH"]
    program = python.parent / "kvcalc"
    run = {"cwd": tmp_path, "env": environment}

    assert call(program, "--version", **run).stdout == f"kvcalc {__version__}\n"
    answer = json.loads(call(program, *SIZE, **run).stdout)
    assert answer["data"]["bytes_per_token"] == 131072
    assert call(python, "-m", "kvcalc", *SIZE, **run).stdout == call(program, *SIZE, **run).stdout
    script = (ROOT / "completions" / "kvcalc.bash").read_text("utf-8")
    assert call(program, "completions", "bash", **run).stdout == script
    shared = python.parent.parent / "share" / "bash-completion" / "completions" / "kvcalc"
    assert shared.read_text("utf-8") == script
    place = Path(call(python, "-c", WHERE, **run).stdout.strip())
    assert (place.name, place.parent.name) == ("presets", "kvcalc")
    assert ROOT not in place.parents


@needs_build
@pytest.mark.skipif(
    importlib.util.find_spec("editables") is None, reason="hatchling's editables is not installed"
)
def test_an_editable_install_reads_the_checkouts_files(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    python = fresh(tmp_path / "venv")
    install(python, "--editable", ROOT)
    del environment["PYTHONPATH"]
    run = {"cwd": tmp_path, "env": environment}

    assert call(python, "-c", WHERE, **run).stdout.strip() == str(ROOT / "presets")
    answer = json.loads(call(python.parent / "kvcalc", *SIZE, **run).stdout)
    assert answer["data"]["bytes_per_token"] == 131072


def test_a_stale_copy_beside_an_editable_install_is_not_read(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Such an install leaves presets in site-packages/kvcalc, which is no package.

    The checkout's own files count, at once when they are edited.
    """
    python = fresh(tmp_path / "venv")
    (site,) = (tmp_path / "venv").rglob("site-packages")
    (site / "kvcalc" / "presets" / "models").mkdir(parents=True)
    (site / "kvcalc" / "presets" / "index.json").write_text("stale")
    (site / "_kvcalc.pth").write_text(f"{ROOT}\n")
    del environment["PYTHONPATH"]
    run = {"cwd": tmp_path, "env": environment}

    assert call(python, "-c", WHERE, **run).stdout.strip() == str(ROOT / "presets")
    answer = json.loads(call(python, "-m", "kvcalc", *SIZE, **run).stdout)
    assert answer["data"]["bytes_per_token"] == 131072


def test_a_checkout_works_uninstalled(tmp_path: Path, environment: dict[str, str]) -> None:
    done = call(sys.executable, "-m", "kvcalc", *SIZE, cwd=tmp_path, env=environment)

    assert json.loads(done.stdout)["data"]["bytes_per_token"] == 131072


@pytest.mark.parametrize("folder", ["presets", "completions"])
def test_data_folders_are_no_packages(folder: str) -> None:
    """An __init__.py there would shadow the editable package."""
    assert list((ROOT / folder).rglob("__init__.py")) == []
