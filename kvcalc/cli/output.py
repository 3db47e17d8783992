"""An answer to its place: the right format, whole or not at all, quiet on a closed pipe."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from kvcalc.core.errors import KvcalcError, nearest
from kvcalc.core.results.base import Result
from kvcalc.core.units import shown

FORMATS = ("text", "plain", "json", "jsonl", "csv", "md", "svg", "html", "png")
_ENDINGS = {".txt": "plain", ".json": "json", ".jsonl": "jsonl", ".csv": "csv", ".md": "md",
            ".markdown": "md", ".svg": "svg", ".html": "html", ".htm": "html",
            ".png": "png"}  # fmt: skip
#: Glyphs for an output that cannot write them.
ASCII = str.maketrans({
    "≈": "~", "×": "x", "–": "-", "−": "-", "…": "...", "▸": ">", "✓": "ok", "✗": "x",
    "▒": ":", "▓": "%", "█": "#", "░": "/", "·": ".", "╌": "-", "─": "-", "\u00a0": " ",
    "▏": " ", "▎": " ", "▍": " ", "▌": "#", "▋": "#", "▊": "#", "▉": "#", "≤": "<=", "≥": ">=",
    "▁": " ", "▂": " ", "▃": " ", "▄": "#", "▅": "#", "▆": "#", "▇": "#", "▾": "v",
    "→": "->", "“": '"', "”": '"', "µ": "u", "ᵀ": "T", "√": "sqrt ", "³": "3",
    "⁹": "9", "└": "+", "┘": "+", "│": "|", "┤": "|", "┴": "+",
})  # fmt: skip


#: Temporary files being written: an interrupted program removes them.
unfinished: list[str] = []
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class Output:
    """Where and how to write, from the common options."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.file: str | None = options.pop("output_file", None)
        if self.file == "":
            raise KvcalcError("usage", "-o is empty", "name a file; - is standard output")
        if self.file in _STDOUT:
            self.file = "-"
        self.quiet = bool(options.pop("quiet", False))
        self.verbose = bool(options.pop("verbose", False))
        chart, no_chart = options.pop("chart", None), options.pop("no_chart", None)
        #: Whether charts and bars are drawn: as asked, else on a terminal.
        self.charts: bool | None = True if chart else False if no_chart else None
        color = options.pop("color", None) or "auto"
        if color not in {"auto", "always", "never"}:
            raise KvcalcError("usage", f"--color {shown(color)}", "auto, always or never")
        name, json = options.pop("format", None), options.pop("json", False)
        if json and name not in {None, "json"}:
            raise KvcalcError("usage", f"--json and --format {shown(name)}", "give one of them")
        if name is not None and name not in FORMATS:
            close = nearest(name, list(FORMATS), 1)
            hint = f"nearest: {close[0]}; all: {', '.join(FORMATS)}" if close else (
                f"formats: {', '.join(FORMATS)}"
            )  # fmt: skip
            raise KvcalcError("usage", f'no format "{shown(name)}"', hint)
        self.color = color
        self.format = "json" if json else name or self._default()

    def _default(self) -> str:
        if self.file not in {None, "-"}:
            ending = os.path.splitext(self.file or "")[1].lower()
            return _ENDINGS.get(ending, "plain")
        wanted = self.color == "always" or self.charts or _is_terminal() or self._forced()
        return "text" if wanted else "plain"

    def _forced(self) -> bool:
        return (
            self.color == "auto"
            and bool(os.environ.get("FORCE_COLOR"))
            and not os.environ.get("NO_COLOR")
        )

    @property
    def colour(self) -> bool:
        """Whether escape codes may be written."""
        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("NO_COLOR") or self.file not in {None, "-"}:
            return False
        return self._forced() or (_is_terminal() and os.environ.get("TERM") != "dumb")

    def render(self, result: Result, envelope: dict[str, Any]) -> str | bytes:
        """The result in the chosen format; png is bytes.

        Raises:
            KvcalcError: "usage" for png on a terminal; "missing_extra" without what draws it.
        """
        if self.format == "json":
            from kvcalc.report.data import dumps  # noqa: PLC0415 - one format, one import

            return dumps(envelope) + "\n"
        if self.format in {"jsonl", "csv"}:
            from kvcalc.report import data  # noqa: PLC0415

            return data.csv(result) if self.format == "csv" else data.jsonl(result)
        if self.format != "text" and not (self.format == "plain" and self.charts):
            return self._rendered(result)
        from kvcalc.report import text  # noqa: PLC0415

        width, height = _terminal_size()
        return text.render(
            result, width=width,
            height=height if _is_terminal() and self.file in {None, "-"} else None,
            colour=self.colour and self.format == "text", charts=self.charts is not False,
        )  # fmt: skip

    def _rendered(self, result: Result) -> str | bytes:
        """By the module named after the format."""
        if self.format == "png" and self.file in {None, "-"} and _is_terminal():
            raise KvcalcError(
                "usage", "png is a picture, not for a terminal", "-o FILE.png writes it to a file"
            )
        module = __import__(f"kvcalc.report.{self.format}", fromlist=["render"])
        rendered: str | bytes = module.render(result)
        return rendered

    def write(self, content: str | bytes) -> None:
        """The content to stdout or to the file.

        Raises:
            KvcalcError: "output_failed"; nothing was written to a regular file then.
        """
        if self.file in {None, "-"}:
            write_stdout(content, plain_text=self.format in {"text", "plain"})
        else:
            write_file(self.file or "", content)

    def write_lines(self, lines: Iterator[str]) -> None:
        """Lines as they come: to stdout one by one, to a file whole or not at all.

        Raises:
            KvcalcError: "output_failed".
        """
        if self.file not in {None, "-"}:
            write_file(self.file or "", lines)
            return
        out = _stdout()
        buffer = getattr(out, "buffer", out)
        live = _is_terminal() or not _is_regular(sys.stdin)
        try:
            for line in lines:
                buffer.write(line.encode("utf-8", "surrogateescape"))
                if live:
                    buffer.flush()
            buffer.flush()
        except BrokenPipeError:
            _silence()
        except OSError as error:
            _silence()
            raise _stdout_failed(error) from None


def _is_regular(stream: Any) -> bool:
    """Whether a stream is a file: then nobody waits for each answer."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False


def _stdout() -> Any:
    if sys.stdout is None:
        raise KvcalcError("output_failed", "standard output is closed", "-o FILE writes to a file")
    return sys.stdout


def _stdout_failed(error: OSError) -> KvcalcError:
    return KvcalcError("output_failed", f"cannot write to standard output: {error.strerror}")


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def help_width() -> int:
    """Cells of a line of help: 80, or what a narrower terminal has."""
    return min(_terminal_size()[0], 80) if _is_terminal() else 80


def _terminal_size() -> tuple[int, int]:
    import shutil  # noqa: PLC0415 - only the terminal format asks

    size = shutil.get_terminal_size((80, 24))
    return max(size.columns, 20), size.lines


def write_stdout(content: str | bytes, *, plain_text: bool = True) -> None:
    """Content to standard output; glyphs in ASCII where its encoding has no others.

    A closed pipe is no failure: the reader has what it wanted.

    Raises:
        KvcalcError: "output_failed" for a full disk and the like.
    """
    out = _stdout()
    try:
        encoding = (getattr(out, "encoding", None) or "utf-8").lower().replace("-", "")
        if isinstance(content, bytes):
            data = content
        elif plain_text and encoding not in {"utf8", "utf8sig", "cp65001"}:
            data = content.translate(ASCII).encode(out.encoding, "replace")
        else:
            data = content.encode("utf-8", "surrogateescape")
        buffer = getattr(out, "buffer", None)
        if buffer is None:
            out.write(data.decode("utf-8"))
        else:
            out.flush()
            buffer.write(data)
            buffer.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        if error.errno in {errno.EPIPE, errno.EINVAL}:  # EINVAL: a closed pipe on Windows
            _silence()
            return
        _silence()
        raise _stdout_failed(error) from None


def _silence() -> None:
    """Keep the interpreter from flushing into the closed pipe at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass


def write_file(path: str, content: str | bytes | Iterator[str]) -> None:
    """Content to a file: a regular one whole or not at all, keeping its mode; else directly.

    Raises:
        KvcalcError: "output_failed", naming the file and why.
    """
    texts: Iterable[str | bytes] = [content] if isinstance(content, (str, bytes)) else content
    chunks = (
        text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        for text in texts
    )  # fmt: skip
    real = os.path.realpath(path)
    folder = os.path.dirname(real) or os.curdir
    # Not of `real`: /dev/stdout is a link to a pipe, which has no path of its own.
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    if mode is None and not os.path.isdir(folder):
        raise KvcalcError(
            "output_failed",
            f"cannot write {shown(path)}: no folder {shown(os.path.dirname(path) or folder)}",
            f"nothing was written; mkdir {shown(os.path.dirname(path) or folder)}",
        )
    temporary = None
    try:
        if mode is not None and not stat.S_ISREG(mode):
            with open(path, "wb") as device:
                device.writelines(chunks)
            return
        temporary = os.path.join(folder, f".{os.path.basename(real)}.{os.getpid()}.part")
        unfinished.append(temporary)
        with open(temporary, "xb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, real)
        temporary = None
    except BrokenPipeError:
        return
    except OSError as error:
        raise KvcalcError(
            "output_failed", f"cannot write {shown(path)}: {error.strerror}", "nothing was written"
        ) from None
    finally:
        unfinished.clear()
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


def complain(error: KvcalcError, *, colour: bool | None = None) -> None:
    """One line on stderr, and a second saying what to do."""
    if colour is None:
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        colour = sys.stderr is not None and sys.stderr.isatty() and not plain
    red, cyan, off = ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") if colour else ("", "", "")
    text = f"{red}error:{off} {error.message}\n"
    if error.hint:
        text += f" {cyan}hint:{off} {error.hint}\n"
    write_stderr(text)


def write_stderr(text: str) -> None:
    """A message, in ASCII where stderr has no other glyphs; lost if nobody can read it."""
    err = sys.stderr
    if err is None:
        return
    try:
        encoding = (getattr(err, "encoding", None) or "utf-8").lower().replace("-", "")
        err.write(text if encoding == "utf8" else text.translate(ASCII))
        err.flush()
    except (OSError, ValueError, UnicodeError):
        pass
