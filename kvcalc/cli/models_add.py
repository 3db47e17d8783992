"""`kvcalc models add SOURCE`: a preset of the user's own, written into the app folder."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import replace
from typing import Any

from kvcalc import resolve
from kvcalc.cli import output
from kvcalc.core.errors import KvcalcError
from kvcalc.core.model import Model
from kvcalc.core.results.base import Result, Warn
from kvcalc.core.units import shown

#: Options that `add` alone takes.
OPTIONS = frozenset({"id", "force"})
_ID = r"[a-z0-9][a-z0-9.+-]{0,99}"


def run(words: list[str], options: dict[str, Any], out: output.Output) -> int:
    """Write the preset of a source and show it.

    Raises:
        KvcalcError: "usage" for no or several sources, a bad id, or a preset that is there
            already; "output_failed"; and what reading the source raises.
    """
    from kvcalc.cli.main import deliver  # noqa: PLC0415 - main imports this module's command

    others = sorted(options.keys() - OPTIONS)
    if others:
        raise KvcalcError("usage", f"--{others[0]} is not for models add", "it takes --id, --force")
    if len(words) != 1:
        problem = "one SOURCE at a time" if words else "add needs a SOURCE"
        raise KvcalcError("usage", problem, "a file, a folder, hf:ORG/NAME, or a preset to copy")
    source = resolve.model_of(words[0])
    model = replace(source, id=_id(source, options.get("id")))
    path = os.path.join(resolve.app_dir(), "models", f"{model.id}.toml")
    if os.path.lexists(path) and not options.get("force"):
        from kvcalc.catalog.locate import shown_path  # noqa: PLC0415

        raise KvcalcError(
            "usage", f"{shown(shown_path(path), 200)} is there already",
            "--force writes over it, --id gives another name",
        )  # fmt: skip
    text = checked_text(model, words[0])
    _folder(os.path.dirname(path))
    output.write_file(path, text)
    return deliver(_shown(model.id, path, out), out)


def checked_text(model: Model, origin: str) -> str:
    """The preset's text, which reads back as the same model: nothing of it is lost.

    Raises:
        KvcalcError: "invalid_preset" if a figure is beyond what a preset may hold.
    """
    import tomli  # noqa: PLC0415 - with pydantic behind `check`: for add alone

    from kvcalc.catalog.decode import model_of  # noqa: PLC0415
    from kvcalc.catalog.schema import check  # noqa: PLC0415
    from kvcalc.catalog.write import preset_text  # noqa: PLC0415

    texts = [shown(model.file or origin, 400)]
    text = preset_text(model, texts=texts, checked=time.strftime("%Y-%m-%d"))
    entry = tomli.loads(text)
    check("models", entry, f"{model.id}.toml")
    if replace(model_of(entry, model.file, model.source)) != model:
        raise AssertionError(f"the preset of {model.id} reads back as another model")
    return text


def _id(model: Model, wanted: str | None) -> str:
    """The id asked for, or the source's name in the letters that an id may have."""
    if wanted is None:
        word = re.sub(r"[^a-z0-9.+-]+", "-", model.id.lower()).strip("-.+")[:100]
        if not word:
            raise KvcalcError("usage", f"no id follows from {shown(model.id)}", "give one: --id")
        return word
    if not re.fullmatch(_ID, wanted):
        raise KvcalcError(
            "usage", f"--id {shown(wanted)} is no id",
            "lower-case letters, digits and . + - only, a letter or digit first",
        )  # fmt: skip
    return wanted


def _folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise KvcalcError(
            "output_failed", f"cannot make {shown(path, 200)}: {error.strerror}",
            "nothing was written",
        ) from None  # fmt: skip


def _shown(preset_id: str, path: str, out: output.Output) -> Result:
    """The preset as `models show` gives it, with a warning where it hides another or is hidden."""
    from kvcalc.api.catalog import models  # noqa: PLC0415
    from kvcalc.catalog.index import shipped_names  # noqa: PLC0415
    from kvcalc.catalog.locate import shown_path  # noqa: PLC0415
    from kvcalc.core.results.catalog import EntryResult  # noqa: PLC0415

    result = models(preset_id)
    assert isinstance(result, EntryResult)  # noqa: S101 - a name gives one entry
    file = shown_path(path)
    if not out.quiet:
        sys.stderr.write(f"wrote {file}\n")
    warnings = []
    if result.entry["file"] != file:
        used = f"{preset_id} is still read from {result.entry['file']}, which comes first"
        warnings.append(Warn("preset_not_used", used))
    elif preset_id in shipped_names("models").values():
        hidden = f"{preset_id} now means this file instead of the shipped preset"
        warnings.append(Warn("preset_replaced", hidden))
    return replace(result, entry={**result.entry, "written": path}, warnings=tuple(warnings))
