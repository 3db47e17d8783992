"""The lines of a log that matter, start by start, found at the speed of a search for words.

Memory does not grow with the log: of each start so many lines of a wording are kept, of the starts
the last two. What the lines say is read afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.logs.anchors import Anchor, anchors_of, broken, found, found_last
from kvcalc.logs.clean import clean, compiled, tag_of
from kvcalc.logs.wording import Family

MIB = 2**20
#: A line that ends nowhere is no log line; of a long one (base64 of a picture) the head counts.
LONGEST_LINE = 8 * MIB
KEPT_LINE = 2**16
#: Before a hit deep inside a long line, and after a line that a terminal may have broken.
_BEFORE, _AFTER = 2**12, 400
#: After a line whose brackets do not close: a dump that a paste broke in two, or on many lines.
_AFTER_OPEN = 2**14
#: Lines kept of one wording and start: 256 ranks print one each.
_KEPT_LINES = 256
#: Up to here every engine's words are looked for; later those of the engines seen.
_ALL_ENGINES = 2 * MIB
#: So long after the last line of a start the server is only serving: first lines are looked for.
_QUIET = 8 * MIB
#: Of a chunk in a start that goes on and on, the last lines of each wording.
_LAST_LINES = 32
#: First lines of one kind in a chunk, from which on only the last starts are read.
_MANY_STARTS = 5


class Hit(NamedTuple):
    """A line that holds a wording's words; `after` is what follows it."""

    line: int
    text: bytes
    after: bytes


class Scan(NamedTuple):
    """The last start's lines, in order, and how much there was."""

    hits: list[Hit]
    starts: int
    lines: int
    bytes: int
    #: The last start has no figures; these are of the one before.
    earlier: bool


class _Start:
    """The lines of one start so far."""

    __slots__ = ("figures", "kept", "opened")

    def __init__(self) -> None:
        self.kept: dict[int, deque[Hit]] = {}
        self.opened: set[tuple[str, str]] = set()
        self.figures = False

    def add(self, index: int, anchor: Anchor, hit: Hit) -> None:
        kept = self.kept.get(index)
        if kept is None:
            kept = self.kept[index] = deque(maxlen=_KEPT_LINES)
        kept.append(hit)
        self.figures = self.figures or anchor.figure

    def hits(self) -> list[Hit]:
        return sorted({hit.line: hit for kept in self.kept.values() for hit in kept}.values())


class Scanner:
    """Fed with whole lines; see `scan`."""

    def __init__(self, families: Sequence[Family], lines: int = 0) -> None:
        self._anchors = anchors_of(families)
        self._early = [(i, a) for i, a in enumerate(self._anchors) if not a.late]
        self._late = [(i, a) for i, a in enumerate(self._anchors) if a.late]
        self._seen: frozenset[int] = frozenset()
        self._start, self._before = _Start(), _Start()
        self._kept_open: set[str] = set()
        #: Bytes since this start began, and since its last line of interest.
        self._age, self._quiet = 0, 0
        self.starts, self.lines, self.bytes = 1, lines, 0

    def feed(self, raw: bytes) -> None:
        """Whole lines, as they are."""
        # A progress bar's returns end a line too, but do not count as one.
        data = raw.replace(b"\r", b"\n")
        late = found(data, self._late)
        skipped, count = self._many_starts(data, late)
        if skipped:
            before = (self.starts, self.lines)
            self.starts, self.lines = self.starts + count, self.lines + raw.count(b"\n", 0, skipped)
            self._read(raw[skipped:], data[skipped:], found(data[skipped:], self._late))
            if self._start.figures or self._before.figures:
                return
            self.starts, self.lines = before
        self._read(raw, data, late)

    def _many_starts(self, data: bytes, late: list[int]) -> tuple[int, int]:
        """Where the third last of many starts begins, and how many are before it; else zeros.

        A server that dies and is started again writes the same first lines over and over; the last
        two starts are all that is asked.
        """
        places: dict[int, list[int]] = {}
        for code in late:
            if self._anchors[code & 255].opens:
                places.setdefault(code & 255, []).append(code >> 8)
        for index, at in places.items():
            if len(at) < _MANY_STARTS:
                continue
            lines = [
                clean(data[p : p + 200]) for p in (data.rfind(b"\n", 0, a) + 1 for a in at[-4:])
            ]
            pattern = self._anchors[index].opens[0][1]
            if len({tag_of(line).label for line in lines}) == 1 and all(
                compiled(pattern).search(line) for line in lines
            ):
                return data.rfind(b"\n", 0, at[-3]) + 1, len(at) - 3
        return 0, 0

    def _read(self, raw: bytes, data: bytes, late: list[int]) -> None:
        counted, end = 0, -1
        text, hit = b"", Hit(0, b"", b"")
        for code in self._places(data, late):
            at, index = code >> 8, code & 255
            anchor = self._anchors[index]
            if at > end:
                begin = data.rfind(b"\n", 0, at) + 1
                end = data.find(b"\n", at)
                end = len(data) if end < 0 else end
                self.lines += raw.count(b"\n", counted, begin)
                counted = begin
                first = max(begin, at - _BEFORE) if end - begin > KEPT_LINE else begin
                text = data[first : min(end, first + KEPT_LINE)]
                more = _AFTER_OPEN if is_open(text) else _AFTER
                hit = Hit(self.lines + 1, text, data[end + 1 : end + 1 + more])
            if anchor.opens or anchor.keeps:
                self._opened(anchor, text)
            if anchor.figure or anchor.opens:
                self._quiet = 0
                self._seen |= anchor.families
            self._start.add(index, anchor, hit)
        self.lines += raw.count(b"\n", counted)
        self.bytes += len(raw)
        self._age += len(raw)
        self._quiet += len(raw)

    def _places(self, data: bytes, late: list[int]) -> list[int]:
        """Where words stand that matter now; the longer nothing new comes, the fewer."""
        active = self._early
        if self.bytes >= _ALL_ENGINES and self._seen:
            active = [(i, a) for i, a in active if a.families & self._seen]
        started = any(self._anchors[code & 255].opens for code in late)
        if started or self._age < _QUIET or not self._start.figures:
            return sorted(late + found(data, active))
        if self._quiet < _QUIET:
            return sorted(late + found_last(data, active, _LAST_LINES))
        return late

    def _opened(self, anchor: Anchor, text: bytes) -> None:
        """Begin a new start if this line began the one under way, and that came to figures."""
        if anchor.keeps:
            self._kept_open.add(anchor.keeps)
        line = clean(text) if anchor.opens else ""
        for kind, pattern in anchor.opens:
            if compiled(pattern).search(line) is None:
                continue
            if kind in self._kept_open:
                self._kept_open.discard(kind)
                continue
            key = (kind, tag_of(line).label)
            if key in self._start.opened and self._start.figures:
                self._before = self._start
                self._start = _Start()
                self._age = 0
                self.starts += 1
            self._start.opened.add(key)

    def unwrap(self, raw: bytes) -> None:
        """Words that a terminal's line breaks cut in two, for a short log."""
        data = raw.replace(b"\r", b"\n")
        for index, end in broken(data, self._anchors):
            begin = data.rfind(b"\n", 0, end) + 1
            line = data.count(b"\n", 0, begin) + 1
            hit = Hit(line, data[begin:end], data[end + 1 : end + _AFTER])
            self._start.add(index, self._anchors[index], hit)

    def result(self) -> Scan:
        """What was kept."""
        earlier = self._before.figures and not self._start.figures
        start = self._before if earlier else self._start
        return Scan(start.hits(), self.starts, self.lines, self.bytes, earlier)


def is_open(text: bytes) -> bool:
    """Whether more brackets open in the line than close."""
    return any(text.count(mark) > text.count(end) for mark, end in ((b"(", b")"), (b"{", b"}")))


def scan(chunks: Iterator[bytes], families: Sequence[Family], name: str) -> Scan:
    """The lines of the last start in a log.

    Raises:
        KvcalcError: "unreadable_input" for a line without end.
    """
    scanner = Scanner(families)
    whole: bytes | None = b""
    for lines in whole_lines(chunks, name):
        scanner.feed(lines)
        whole = lines if whole == b"" else None
    if whole:
        # A short log is looked through once more, for words that a terminal cut.
        scanner.unwrap(whole)
    return scanner.result()


def whole_lines(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The chunks cut at line ends; of a line longer than a chunk its head.

    Raises:
        KvcalcError: "unreadable_input" for a line without end.
    """
    rest, endless = b"", 0
    for chunk in chunks:
        data = rest + chunk
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if cut:
            yield data[:cut]
            rest, endless = data[cut:], 0
            continue
        rest, endless = data[:KEPT_LINE], endless + len(chunk)
        if endless > LONGEST_LINE:
            raise KvcalcError(
                "unreadable_input",
                f"{name}: is no log: a line of more than {LONGEST_LINE // MIB} MiB",
                "check reads the text that an engine prints when it starts",
            )
    if rest:
        yield rest
