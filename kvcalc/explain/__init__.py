"""Short pages on the KV cache, each with the numbers of the model that is asked about.

`kvcalc.explain` is also the name of the Python function behind `kvcalc explain`. Importing this
package would hide the function under the package's name, so the package can be called like it.
"""

from __future__ import annotations

import sys
from typing import Any


class _Explain(type(sys)):  # type: ignore[misc]  # the type of modules
    """A package that answers when it is called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """`kvcalc.explain(...)`, as in `kvcalc.api.explain`."""
        from kvcalc.api.explain import explain  # noqa: PLC0415 - it imports this package

        return explain(*args, **options)


sys.modules[__name__].__class__ = _Explain
