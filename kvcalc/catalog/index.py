"""presets/index.json: every name of every preset to its id. Generated; committed; tested current.

`python -m kvcalc.catalog.index` writes it, `--check` only compares and exits 1 when it is stale.
"""

from __future__ import annotations

import json
import os
import sys

from kvcalc.catalog.files import Entry, read_toml, toml_files
from kvcalc.catalog.locate import data_dir
from kvcalc.catalog.names import normalise
from kvcalc.core.errors import KvcalcError

KINDS = ("models", "gpus")
Names = dict[str, str]
_loaded: dict[str, Names] = {}


def index_path() -> str:
    """The file of the shipped index."""
    return os.path.join(data_dir("presets"), "index.json")


def names_of(entry: Entry) -> list[str]:
    """All normalised names of a preset: id, aliases, hub names and what follows their slash."""
    hub = [str(h) for h in entry.get("hub", ())]
    words = [entry["id"], *entry.get("aliases", ()), *hub, *(h.rpartition("/")[2] for h in hub)]
    return list(dict.fromkeys(normalise(str(w)) for w in words))


def shipped_names(kind: str) -> Names:
    """Normalised name to id of the shipped "models" or "gpus".

    Raises:
        KvcalcError: "internal" if the index is missing or damaged.
    """
    if not _loaded:
        try:
            with open(index_path(), encoding="utf-8") as file:
                _loaded.update(json.load(file))
        except (OSError, ValueError):
            raise KvcalcError(
                "internal", "presets/index.json is missing or damaged", "install kvcalc again"
            ) from None
    return _loaded[kind]


def build() -> str:
    """The text of index.json as the preset files give it, one name a line.

    Raises:
        KvcalcError: "invalid_preset" if two presets share a name or a file is not called
            after its id.
    """
    lines = []
    for kind in KINDS:
        names: Names = {}
        for path in toml_files(os.path.join(data_dir("presets"), kind)):
            entry = read_toml(path)
            if os.path.basename(path) != f"{entry['id']}.toml":
                raise KvcalcError("invalid_preset", f"{path}: holds the id {entry['id']}")
            for name in names_of(entry):
                if names.setdefault(name, entry["id"]) != entry["id"]:
                    raise KvcalcError(
                        "invalid_preset", f"{kind}: {names[name]} and {entry['id']} share {name}"
                    )
        pairs = ",\n".join(f"{json.dumps(n)}:{json.dumps(names[n])}" for n in sorted(names))
        lines.append(f'"{kind}":{{\n{pairs}\n}}')
    return "{" + ",\n".join(lines) + "}\n"


def main(arguments: list[str]) -> int:
    """Write the index, or with --check say whether it is current."""
    text = build()
    if arguments == ["--check"]:
        with open(index_path(), encoding="utf-8") as file:
            current = file.read() == text
        if not current:
            sys.stderr.write("presets/index.json is stale: run python -m kvcalc.catalog.index\n")
        return 0 if current else 1
    if arguments:
        sys.stderr.write("usage: python -m kvcalc.catalog.index [--check]\n")
        return 2
    with open(index_path(), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
