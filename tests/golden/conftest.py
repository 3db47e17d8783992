"""Committed outputs: compared, or written anew by `pytest tests/golden --update-goldens`."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "expected"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one flag."""
    parser.addoption(
        "--update-goldens", action="store_true", help="write the golden files instead of comparing"
    )


class Golden:
    """The folder of expected outputs."""

    def __init__(self, *, update: bool) -> None:
        self.update = update

    def check(self, name: str, text: str) -> None:
        """Fail if `text` is not what the file holds; with the flag, write it there."""
        path = FOLDER / name
        if self.update:
            FOLDER.mkdir(exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
            return
        assert path.is_file(), f"no {name} yet: pytest tests/golden --update-goldens"
        assert text == path.read_bytes().decode("utf-8")

    def only(self, names: set[str]) -> None:
        """Fail if other files lie there; with the flag, remove them."""
        others = {path for path in FOLDER.iterdir() if path.name not in names}
        if self.update:
            for path in others:
                path.unlink()
            return
        assert not others


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares an output with its file."""
    return Golden(update=bool(request.config.getoption("--update-goldens", default=False)))
