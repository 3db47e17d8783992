"""`kvcalc` and `python -m kvcalc`: the way in and out."""

import os
import sys


def main() -> None:
    """Answer the command line and exit with its code; Ctrl-C is 130 from the first statement on.

    As the program, not called by another module, it leaves without taking the interpreter down
    piece by piece, which would cost every answer 8 ms.
    """
    caller = sys._getframe(1).f_globals  # noqa: SLF001 - says whether this is the program
    program = caller is sys.modules["__main__"].__dict__
    try:
        code = _run(sys.argv[1:], program=program)
    except KeyboardInterrupt:
        code = 130
    except Exception:  # noqa: BLE001 - a bug beyond the last catch of the commands
        sys.excepthook(*sys.exc_info())
        code = 70
    _leave(code, program=program)


def _run(argv: list[str], *, program: bool) -> int:
    if argv in (["--version"], ["-V"]) and _said_version():
        return 0
    import gc  # noqa: PLC0415 - a built-in
    import signal  # noqa: PLC0415 - after the fast way out

    # One answer makes little garbage; collecting during imports costs 5 ms. `batch` turns it on.
    gc.disable()
    if program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from kvcalc.cli.main import run  # noqa: PLC0415 - after the fast way out

    return run(argv)


def _said_version() -> bool:
    """Whether the version could be written; the slow way reports what went wrong."""
    from kvcalc import __version__  # noqa: PLC0415 - nothing else is loaded for this

    try:
        sys.stdout.write(f"kvcalc {__version__}\n")
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        return False
    return True


def _interrupted(_number: int, _frame: object) -> None:
    """Leave at once: a KeyboardInterrupt raised while the import system cleans up is lost."""
    output = sys.modules.get("kvcalc.cli.output")
    for path in getattr(output, "unfinished", ()):
        if os.path.exists(path):
            os.unlink(path)
    runner = sys.modules.get("kvcalc.detect.run")
    for process in getattr(runner, "running", ()):
        runner.kill(process)  # type: ignore[union-attr]  # in a session that Ctrl-C does not reach
    os._exit(130)


def _leave(code: int, *, program: bool) -> None:
    _flush(sys.stdout)
    _flush(sys.stderr)
    if program and sys.gettrace() is None and sys.getprofile() is None:
        os._exit(code)
    sys.exit(code)


def _flush(stream: object) -> None:
    try:  # noqa: SIM105 - contextlib would be loaded for --version too
        stream.flush()  # type: ignore[attr-defined]  # AttributeError: it is None, closed
    except (OSError, ValueError, AttributeError):
        pass


if __name__ == "__main__":
    main()
