"""A result in each format; nothing is computed here.

`kvcalc.report` is also the Python function behind `kvcalc report`; importing this package would
hide it under the package's name, so the package can be called like it.
"""

from __future__ import annotations

import sys
from typing import Any


class _Report(type(sys)):  # type: ignore[misc]  # the type of modules
    """A package that answers when it is called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """`kvcalc.report(...)`, as in `kvcalc.api.report`."""
        from kvcalc.api.report import report  # noqa: PLC0415 - it imports this package

        return report(*args, **options)


sys.modules[__name__].__class__ = _Report
