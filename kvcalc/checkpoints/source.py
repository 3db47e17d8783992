"""A MODEL that is a path: a config.json or its folder, a .safetensors or a .gguf file.

Only headers are read of the large files, and what they need is imported when a path is named:
every query asks `is_path`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.model import Model, StoredType
from kvcalc.core.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvcalc.checkpoints.safetensors import Safetensors

CONFIG = "config.json"
ENDINGS = (".json", ".gguf", ".safetensors")
_POINTER = b"version https://git-lfs"
#: What only a path begins with: no preset is called so.
_BEGINNINGS = ("./", "../", "~/", ".\\", "..\\")
#: What a state is compared by: name, size in bytes, time of the last change in nanoseconds.
State = tuple[tuple[str, int, int], ...]


def is_path(name: str) -> bool:
    """Whether a MODEL names a file or folder rather than a preset.

    So is whatever ends in .json, .gguf or .safetensors, there or not; a folder that holds a
    config.json; and what is written as only a path is. `hf:` wins over all but an existing file.
    """
    if name[:3].lower() == "hf:":
        return os.path.exists(name)
    if name.lower().endswith(ENDINGS) or name.startswith(_BEGINNINGS) or os.path.isabs(name):
        return True
    return name in {".", ".."} or os.path.isfile(os.path.join(name, CONFIG))


def state(name: str) -> State:
    """What tells whether the files behind a path have changed since it was read; () if missing."""
    path = os.path.expanduser(name)
    folder, base = (path, CONFIG) if os.path.isdir(path) else os.path.split(path)
    if base == CONFIG:
        keep = (CONFIG, ".safetensors")
    else:  # a split file's parts share what stands before their numbers
        keep = (base.rpartition("-of-")[0][:-5] or base, CONFIG)
    try:
        with os.scandir(folder or os.curdir) as listing:
            found = [(e.name, e.stat()) for e in listing if any(k in e.name for k in keep)]
    except (OSError, ValueError):
        return ()
    return tuple(sorted((name, s.st_size, s.st_mtime_ns) for name, s in found))


def load_source(name: str) -> Model:
    """The model in a file or folder; its `file` is the path, its `source` says what was read.

    Parameters and weights are exact from the headers of safetensors beside a config.json, or of a
    GGUF file; else they follow from the config as far as it tells.

    Raises:
        KvcalcError: "unreadable_input" if there is no such file, or it is damaged or of no such
            kind; "invalid_config" and "unsupported_architecture" for what stands in it.
    """
    path = os.path.expanduser(name)
    kind = _mode(path)
    if kind is None:
        raise _missing(path)
    if stat.S_ISDIR(kind):
        if not os.path.isfile(os.path.join(path, CONFIG)):
            raise _no_config(path)
        return _from_config(os.path.join(path, CONFIG))
    if not stat.S_ISREG(kind):
        raise _error(path, "is no regular file", "name a file on a disk")
    ending = os.path.splitext(path)[1].lower()
    if ending == ".gguf":
        return _from_gguf(path)
    if ending == ".safetensors":
        return _from_safetensors(path)
    if ending == ".json":
        return _from_config(path)
    raise _error(
        path, "is no model that kvcalc reads",
        f"name a {CONFIG} or its folder, a .safetensors or a .gguf file",
    )  # fmt: skip


def _from_config(path: str) -> Model:
    """A config, with the headers beside it if it is called config.json."""
    from kvcalc.checkpoints.config import load_json, model_from_config  # noqa: PLC0415
    from kvcalc.checkpoints.stored import with_weights  # noqa: PLC0415

    base = os.path.basename(path)
    if base.endswith(".safetensors.index.json"):
        raise _error(path, "lists tensors, and no layers", f"name the folder, with its {CONFIG}")
    config = load_json(path)
    model = model_from_config(config, name=_name(path), where=path)
    shards, index_bytes = beside(os.path.dirname(path)) if base == CONFIG else ((), None)
    model = with_weights(model, config, shards, index_bytes)
    return replace(model, source="config.json", file=path)


def _from_safetensors(path: str) -> Model:
    """A file of tensors: its config.json tells the caches. Of a numbered set, all parts count."""
    from kvcalc.checkpoints.config import load_json, model_from_config  # noqa: PLC0415
    from kvcalc.checkpoints.safetensors import read_safetensors  # noqa: PLC0415
    from kvcalc.checkpoints.stored import with_weights  # noqa: PLC0415

    folder, base = os.path.split(path)
    told = os.path.join(folder, CONFIG)
    found = read_safetensors(path)
    if not os.path.isfile(told):
        raise _error(
            path, f"tells the weights, but not the layers; there is no {CONFIG} beside it",
            f"put the model's {CONFIG} into the same folder, or name a preset",
        )  # fmt: skip
    config = load_json(told)
    numbered = "-of-" in base
    name = _name(told if numbered or base == "model.safetensors" else path)
    model = model_from_config(config, name=name, where=told)
    model = with_weights(model, config, beside(folder)[0] if numbered else (found,))
    return replace(model, source="safetensors", file=path)


def _from_gguf(path: str) -> Model:
    """A GGUF file, or any part of a split one, from its header alone."""
    from kvcalc.checkpoints.gguf import read_gguf  # noqa: PLC0415
    from kvcalc.checkpoints.gguf_model import model_from_metadata  # noqa: PLC0415

    found = read_gguf(path)
    stem = os.path.splitext(os.path.basename(path))[0]
    if len(found.parts) > 1:
        stem = stem.rpartition("-of-")[0][:-6] or stem
    model = model_from_metadata(
        found.metadata, name=stem, where=shown(path, 400), tensors=found.tensors
    )
    weights = model.weights
    if weights is not None:
        types = (StoredType(kind.lower(), t.stored_bytes) for kind, t in found.types.items())
        weights = weights._replace(types=tuple(sorted(types, key=lambda t: -t.bytes)))
    told = found.metadata.get("general.name")
    name = told if isinstance(told, str) and told.strip() and told.isprintable() else stem
    return replace(model, name=name, source="gguf", file=path, weights=weights)


def beside(folder: str) -> tuple[Iterable[Safetensors], int | None]:
    """The headers of the safetensors in a folder, each read when its turn comes.

    A folder may hold none yet, or Git LFS pointers in their place: then an index still tells what
    all tensors take, the second figure.

    Raises:
        KvcalcError: "unreadable_input" if only some shards are there, or one is damaged.
    """
    folder = folder or os.curdir
    try:
        names = [n for n in os.listdir(folder) if ".safetensors" in n]
    except OSError:
        names = []
    if not names:
        return (), None
    from kvcalc.checkpoints import safetensors as st  # noqa: PLC0415 - a config alone needs none

    files = [n for n in names if n.endswith(st.ENDING)]
    if all(_is_pointer(os.path.join(folder, n)) for n in files):
        index = os.path.join(folder, st.INDEX_NAME)
        return (), st.read_index(index).total_bytes if os.path.isfile(index) else None
    if _is_whole_set(files):  # what an index of 100,000 tensors would say of it is known
        return (st.read_safetensors(os.path.join(folder, n)) for n in sorted(files)), None
    return iter((st.read_folder(folder),)), None


def _is_whole_set(files: list[str]) -> bool:
    """Whether the files are model-00001-of-00003.safetensors and so on, all and no other."""
    stem, _, count = files[0].removesuffix(".safetensors").rpartition("-of-")
    n, digits = len(files), len(count)
    if count != f"{n:0{digits}d}" or not 1 <= digits <= 5:
        return False
    stem = stem[:-digits]
    return {f"{stem}{i:0{digits}d}-of-{count}.safetensors" for i in range(1, n + 1)} == set(files)


def _is_pointer(path: str) -> bool:
    """Whether a file is a Git LFS pointer, which stands where a large file was not fetched."""
    try:
        if os.path.getsize(path) > 1024:
            return False
        with open(path, "rb") as file:
            return file.read(len(_POINTER)) == _POINTER
    except OSError:
        return False


def _name(path: str) -> str:
    """What to call the model of a file: its folder, or its own name; of the hub's cache the repo's.

    The hub's cache keeps config.json in models--ORG--NAME/snapshots/COMMIT.
    """
    folder, base = os.path.split(os.path.abspath(path))
    if base != CONFIG:
        return os.path.splitext(base)[0] or base
    above, name = os.path.split(folder)
    repository = os.path.basename(os.path.dirname(above))
    if os.path.basename(above) == "snapshots" and repository.startswith("models--"):
        name = repository.rpartition("--")[2]
    return name or base


def _mode(path: str) -> int | None:
    """The kind of a file, or None if there is none such."""
    try:
        return os.stat(path).st_mode
    except ValueError:  # a zero byte
        return None
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return None
        reason = (error.strerror or "cannot be read").lower()
        raise _error(path, reason, "check the path and its permissions") from None


def _error(path: str, problem: str, hint: str) -> KvcalcError:
    return KvcalcError("unreadable_input", f"{shown(path, 400)}: {problem}", hint)


def _missing(path: str) -> KvcalcError:
    folder, base = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or os.curdir))[:10_000]
    except (OSError, ValueError):
        return _error(path, "no such file", f"there is no folder {shown(folder, 200)} either")
    lower = {name.lower(): name for name in names if name.lower().endswith(ENDINGS)}
    close = [shown(lower[name], 80) for name in nearest(base, list(lower))]
    near = f"nearest: {', '.join(close)}" if close else "check the path"
    return _error(path, "no such file", near)


def _no_config(folder: str) -> KvcalcError:
    try:
        files = sorted(n for n in os.listdir(folder) if n.lower().endswith((".gguf", ".json")))
    except OSError:
        return _error(folder, "cannot be listed", "check its permissions")
    hint = f"name a folder with the model's {CONFIG}"
    if files:
        hint = f"it holds {', '.join(shown(name, 80) for name in files[:3])}: name the file itself"
    return _error(folder, f"holds no {CONFIG}", hint)
