"""A loopback server that answers as the hub does: resolve URLs, redirects to a store, refusals."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

COMMIT = "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678"
_RESOLVE = re.compile(r"/(?P<id>[\w.-]+(?:/[\w.-]+)?)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class Asked(NamedTuple):
    """One request as it arrived."""

    host: str
    method: str
    path: str
    range: str | None
    token: str | None


@dataclass
class Repository:
    """Files by name; `.safetensors` lie in the store, as large files do."""

    files: dict[str, bytes]
    revisions: tuple[str, ...] = ("main", "v1", COMMIT)
    #: GatedRepo and the like, with its status, for every file.
    refusal: tuple[int, str] | None = None


@dataclass
class Hub:
    """The server's state; a test sets what is to go wrong."""

    address: str = ""
    store: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    #: Statuses for all that is asked of a file, however often.
    failing: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    #: Seconds before an answer about a file.
    slow: dict[str, float] = field(default_factory=dict)
    #: Files whose answers end after so many bytes.
    cut: dict[str, int] = field(default_factory=dict)
    ranges: bool = True

    def add(
        self, name: str, files: dict[str, bytes], refusal: tuple[int, str] | None = None
    ) -> None:
        """A repository; with a refusal, that is the answer for all its files."""
        self.repositories[name] = Repository(files, refusal=refusal)

    def gets(self, ending: str = "") -> list[Asked]:
        """The requests for content of files with that ending."""
        return [a for a in self.asked if a.method == "GET" and a.path.endswith(ending)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub
    is_store: bool

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_HEAD(self) -> None:
        """The headers of a GET."""
        self._answer()

    def do_GET(self) -> None:
        """A file, a part of it, a redirect or a refusal."""
        self._answer()

    def _answer(self) -> None:
        host = "store" if self.is_store else "hub"
        self.hub.asked.append(
            Asked(
                host,
                self.command,
                self.path,
                self.headers.get("Range"),
                self.headers.get("Authorization"),
            )
        )
        match = _RESOLVE.fullmatch(self.path)
        if match is None:
            self._send(404, b"nothing here")
            return
        file = match["file"]
        time.sleep(self.hub.slow.get(file, 0))
        if file in self.hub.failing:
            status, headers = self.hub.failing[file]
            self._send(status, b"an answer's text", headers)
            return
        repository = self.hub.repositories.get(match["id"])
        if repository is None:
            self._refuse(401, "RepoNotFound")
        elif repository.refusal is not None:
            self._refuse(*repository.refusal)
        elif match["revision"] not in repository.revisions:
            self._refuse(404, "RevisionNotFound")
        elif file not in repository.files:
            self._refuse(404, "EntryNotFound", {"X-Repo-Commit": COMMIT})
        elif file.endswith(".safetensors") and not self.is_store:
            self._redirect(repository.files[file])
        else:
            self._content(file, repository.files[file])

    def _refuse(self, status: int, word: str, headers: dict[str, str] | None = None) -> None:
        told = {"X-Error-Code": word, "X-Error-Message": f"{word}: {self.path}", **(headers or {})}
        self._send(status, b"an answer's text", told)

    def _redirect(self, data: bytes) -> None:
        headers = {
            "Location": self.hub.store + self.path,
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(len(data)),
            "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
        }
        self._send(302, b"", headers)

    def _content(self, file: str, data: bytes) -> None:
        headers = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"',
            "Accept-Ranges": "bytes",
        }
        match = _RANGE.fullmatch(self.headers.get("Range", ""))
        if match is None or not self.hub.ranges:
            self._send(200, data, headers, self.hub.cut.get(file))
            return
        begin, end = int(match[1]), min(int(match[2]) + 1, len(data))
        if begin >= len(data):
            self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
        self._send(206, data[begin:end], headers, self.hub.cut.get(file))

    def _send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        cut: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        if cut is not None:
            self.close_connection = True
        self.end_headers()
        if self.command == "GET":
            try:
                self.wfile.write(body[:cut])
            except OSError:  # the client has what it wanted
                self.close_connection = True


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no error here."""


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub and its store on two ports, so that they are two origins."""
    hub = Hub()
    servers = []
    for is_store in (False, True):
        handler = type("Handler", (_Handler,), {"hub": hub, "is_store": is_store})
        servers.append(_Quiet(("127.0.0.1", 0), handler))
    hub.address, hub.store = (f"http://127.0.0.1:{s.server_port}" for s in servers)
    threads = [threading.Thread(target=s.serve_forever, args=(0.05,)) for s in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()
