"""The hub's stand-in, and huggingface_hub pointed to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints.hub_server import Hub, serving


@pytest.fixture(scope="session")
def hub_server() -> Iterator[Hub]:
    """One server for all tests: huggingface_hub reads its address once, when it is imported."""
    with serving() as hub:
        yield hub


@pytest.fixture(scope="module")
def package(hub_server: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """huggingface_hub, imported anew under variables that point it to the server."""
    pytest.importorskip("huggingface_hub")
    home = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in sys.modules if n.partition(".")[0] == "huggingface_hub"]:
            patch.delitem(sys.modules, name)
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH"):
            patch.delenv(name, raising=False)
        for name in ("HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS"):
            patch.setenv(name, "1")
        patch.setenv("HF_ENDPOINT", hub_server.address)
        patch.setenv("HF_HOME", str(home))
        patch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "1")
        patch.setenv("HF_HUB_ETAG_TIMEOUT", "1")
        import huggingface_hub  # noqa: PLC0415
        import huggingface_hub.constants  # noqa: PLC0415

        yield huggingface_hub
        for name in [n for n in sys.modules if n.partition(".")[0] == "huggingface_hub"]:
            patch.delitem(sys.modules, name)


@pytest.fixture
def hub(hub_server: Hub, package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The server without repositories, and an empty cache."""
    for state in (hub_server.repositories, hub_server.asked, hub_server.failing, hub_server.slow,
                  hub_server.cut):  # fmt: skip
        state.clear()
    hub_server.ranges = True
    monkeypatch.setattr(package.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return hub_server
