"""Where the shipped data lies: beside the package's modules in a wheel, beside it in a checkout."""

from __future__ import annotations

import os

from kvcalc.core.errors import KvcalcError

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_found: dict[str, str] = {}


def data_dir(name: str) -> str:
    """The folder `name` ("presets", "completions"): kvcalc/<name> or ../<name>.

    A checkout's own files win over the stale copy that an editable install leaves behind: there
    the package has no such folder.

    Raises:
        KvcalcError: "internal" if the installation lacks it.
    """
    if name not in _found:
        for root in (PACKAGE, os.path.dirname(PACKAGE)):
            path = os.path.join(root, name)
            if os.path.isdir(path):
                _found[name] = path
                break
        else:
            raise KvcalcError(
                "internal", f"this installation has no {name} folder", "install kvcalc again"
            )
    return _found[name]


def shown_path(path: str) -> str:
    """A path as messages show it: the home folder as ~."""
    home = os.path.expanduser("~")
    inside = home not in {"~", os.sep} and path.startswith(home + os.sep)
    return "~" + path[len(home) :] if inside else path
