"""`kvcalc` and `python -m kvcalc`: the way in and out."""

from __future__ import annotations

import sys


def main() -> None:
    """Answer the command line and exit with its code; Ctrl-C is 130 from the first statement on."""
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    _leave(code)


def _run(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        from kvcalc import __version__  # noqa: PLC0415 - nothing else is loaded for this

        sys.stdout.write(f"kvcalc {__version__}\n")
        return 0
    import gc  # noqa: PLC0415 - a built-in

    # One answer makes little garbage; collecting during imports costs 5 ms. `batch` turns it on.
    gc.disable()
    from kvcalc.cli.main import run  # noqa: PLC0415 - after the fast way out

    return run(argv)


def _leave(code: int) -> None:
    try:  # noqa: SIM105 - contextlib would be loaded for --version too
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        pass
    sys.exit(code)


if __name__ == "__main__":
    main()
