"""Requests to the hub: small files through its cache, the beginnings of large ones by range.

Written against what huggingface_hub has had from 0.30 on, when its sessions were those of requests;
since 1.0 they are those of httpx.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from kvcalc.checkpoints.bounded import MAX_HEADER_BYTES
from kvcalc.checkpoints.hub_errors import ENDPOINT, NO_FILE, Repo, refused, said, unanswered
from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

#: Asked for at first: the whole header of most files; a second request takes longer than its bytes.
FIRST_BYTES = 65_536
#: A server that sends a byte now and then lets no timeout pass; this ends it.
MAX_SECONDS = 60.0
_CHUNK = 65_536
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
_Answer = TypeVar("_Answer")


def hub_package(repo: Repo) -> Any:
    """huggingface_hub, loaded now; where kvcalc is the one to load it, it stays quiet.

    Raises:
        KvcalcError: "missing_extra" if it is not installed or cannot be loaded.
    """
    if "huggingface_hub" not in sys.modules:
        # Without the first it would ask the hub for a list of programs that may have started it.
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        import huggingface_hub  # noqa: PLC0415 - an extra, and slow to load
        import huggingface_hub.constants  # noqa: PLC0415
        import huggingface_hub.utils  # noqa: PLC0415
    except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
        missing = "is not installed" if isinstance(error, ModuleNotFoundError) else "does not load"
        raise KvcalcError(
            "missing_extra", f"{shown(repo.typed, 200)} needs huggingface_hub, which {missing}",
            "pip install 'kvcalc[hub]'",
        ) from None  # fmt: skip
    return huggingface_hub


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """An answer that is no success, whose body is not read."""

    def __init__(self, response: Any) -> None:
        super().__init__()
        self.response = response


class _Part(NamedTuple):
    """A part of a file, and the size of all of it."""

    data: bytes
    size: int


class Remote:
    """One repository at one commit.

    Every method that reads raises KvcalcError: "unknown_model" if there is no such repository or
    revision, else "unreadable_input".
    """

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        #: Settled by the first file; None if that came from the cache.
        self.commit: str | None = None
        self._hub = hub_package(repo)
        self.offline = bool(self._hub.constants.HF_HUB_OFFLINE)

    @property
    def place(self) -> str:
        """What was read: hf:ORG/NAME@COMMIT."""
        return Repo(self.repo.id, self.commit).typed if self.commit else self.repo.typed

    def cached(self, file: str) -> str | None:
        """Where the hub's cache holds the file, or None."""
        found = self._hub.try_to_load_from_cache(self.repo.id, file, revision=self._revision())
        return found if isinstance(found, str) else None

    def first(self, file: str) -> str:
        """The path of the file that every model has, fetched into the cache.

        A cached copy serves where the hub cannot be reached, refuses or has trouble.
        """
        path = self.cached(file) if self.offline else None
        if self.offline and path is None:
            raise self.repo.error(
                f"is not in the hub's cache, and HF_HUB_OFFLINE is set: no {file}",
                "unset HF_HUB_OFFLINE once",
            )
        if not self.offline:
            try:
                path = self.small(file)
            except KvcalcError as error:
                path = None if error.code in {"unknown_model", "usage"} else self.cached(file)
                if path is None:
                    raise
                self.offline = True
        if path is None:
            raise self.repo.error(
                f"has no {file}", "of a GGUF repository, fetch one .gguf file and name that"
            )
        return path

    def small(self, file: str) -> str | None:
        """The path of a file fetched whole into the cache; None if the repository has none such."""
        if (self.commit or self.offline) and (path := self.cached(file)) is not None:
            return path
        if self.offline:
            return None
        # A byte by range tells status and size; some releases would retry a HEAD for half a minute.
        found = self._ask(file, lambda: self._range(file, 0, 1))
        if found is None:
            return None
        if found.size > MAX_HEADER_BYTES:
            raise self.repo.error(
                f"cannot be read: {file} has {found.size:,} bytes, more than the"
                f" {MAX_HEADER_BYTES:,} that kvcalc reads",
                "check the name",
            )
        # By the name that was typed: the cache then knows which commit it meant, for use offline.
        fetch, revision = self._hub.hf_hub_download, self._revision()
        path = self._ask(file, lambda: fetch(self.repo.id, file, revision=revision))
        if path is None:
            return None
        # The cache keeps …/snapshots/COMMIT/config.json.
        self.commit = self.commit or os.path.basename(os.path.dirname(path))
        return str(path)

    def head(self, file: str, needed: Callable[[bytes, int], int]) -> tuple[bytes, int] | None:
        """The beginning of a file, and the size of all of it; None if there is no such file.

        Args:
            file: Its name in the repository.
            needed: From the bytes that came first and the file's size to the bytes wanted.
        """
        return self._ask(file, lambda: self._head(file, needed))

    def _head(self, file: str, needed: Callable[[bytes, int], int]) -> tuple[bytes, int]:
        data, size = self._range(file, 0, FIRST_BYTES)
        wanted = needed(data, size)
        if wanted > len(data) >= min(FIRST_BYTES, size):
            data += self._range(file, len(data), wanted).data
        if wanted > len(data):
            problem = f"{shown(file)} was cut off at {len(data):,} of {wanted:,} bytes"
            raise self.repo.error(f"cannot be read: {problem}", "try again")
        return data[:wanted], size

    def _range(self, file: str, begin: int, end: int) -> _Part:
        """Bytes begin to end - 1 of a file, fewer where it is shorter."""
        headers = self._hub.utils.build_hf_headers()
        headers |= {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
        with self._opened(self._url(file), headers) as (response, chunks):
            if response.status_code == 416:  # an empty file has no first byte
                return _Part(b"", 0)
            if response.status_code not in {200, 206}:
                raise _Refused(response)
            at, size = self._place(file, response, begin)
            return _Part(self._collected(file, chunks, begin - at, end - begin), size)

    def _place(self, file: str, response: Any, begin: int) -> tuple[int, int]:
        """Where in the file an answer begins, and the file's size.

        A server without ranges sends the whole file; it is read as far as needed.
        """
        if response.status_code == 206:
            match = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
            if match is not None and int(match[1]) == begin:
                return begin, int(match[3])
        elif _DIGITS.fullmatch(length := response.headers.get("Content-Length", "")):
            return 0, int(length)
        raise self.repo.error(f"cannot be read: {shown(file)} came without its size", ENDPOINT)

    def _collected(self, file: str, chunks: Iterator[bytes], skip: int, count: int) -> bytes:
        data, last = bytearray(), time.monotonic() + MAX_SECONDS
        for chunk in chunks:
            data += chunk
            passed = min(skip, len(data))
            del data[:passed]
            skip -= passed
            if len(data) >= count:
                break
            if time.monotonic() > last:
                problem = f"{shown(file)} did not arrive within {MAX_SECONDS:.0f} s"
                raise self.repo.error(f"cannot be read: {problem}", "try again")
        return bytes(data[:count])

    @contextmanager
    def _opened(self, url: str, headers: dict[str, str]) -> Iterator[tuple[Any, Iterator[bytes]]]:
        """An answer whose body is not read yet, and its body, of either kind of session."""
        session = self._hub.utils.get_session()
        asked: dict[str, Any] = {
            "headers": headers,
            "timeout": self._hub.constants.HF_HUB_DOWNLOAD_TIMEOUT,
        }
        if callable(getattr(session, "stream", None)):
            with session.stream("GET", url, follow_redirects=True, **asked) as response:
                yield response, response.iter_raw(_CHUNK)
        else:
            with session.get(url, stream=True, **asked) as response:
                yield response, response.iter_content(_CHUNK)

    def _ask(self, file: str, request: Callable[[], _Answer]) -> _Answer | None:
        """What a request gives; None if the hub says that the repository has no such file."""
        try:
            return request()
        except KvcalcError:
            raise
        except Exception as error:  # noqa: BLE001 - two HTTP libraries' errors, told by their names
            # HfHubHTTPError holds the answer, as ours does.
            response = getattr(error, "response", None)
            if getattr(response, "status_code", None) is None:
                trouble = unanswered(self.repo, file, error)
            elif self._is_missing(response):
                return None
            else:
                trouble = refused(self.repo, file, response)
        # Raised here, so that it carries no exception whose text may hold the token.
        raise trouble

    def _is_missing(self, response: Any) -> bool:
        """Whether an answer says that there is no such file, the repository and revision known."""
        word = said(response)
        return word == NO_FILE or (response.status_code == 404 and not word and bool(self.commit))

    def _revision(self) -> str | None:
        return self.commit or self.repo.revision

    def _url(self, file: str) -> str:
        return str(self._hub.hf_hub_url(self.repo.id, file, revision=self._revision()))
