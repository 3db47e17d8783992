"""What went wrong at the hub, in one line: refusals and lost connections by name.

Nothing of a request, an answer's text or an exception's text enters a message: each may hold the
access token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.units import shown

GATED, NO_REPO, NO_REVISION, NO_FILE = (
    "GatedRepo", "RepoNotFound", "RevisionNotFound", "EntryNotFound",
)  # fmt: skip
ENDPOINT = "check HF_ENDPOINT and any proxy"
#: Classes of exceptions, of requests, urllib3, httpx and huggingface_hub, by what they tell.
_SLOW = {"Timeout", "TimeoutException", "ReadTimeoutError"}
_CUT = {"ChunkedEncodingError", "ProtocolError", "DecodingError", "ContentDecodingError"}
_AWAY = {"ConnectionError", "NetworkError", "ProxyError"}


class Repo(NamedTuple):
    """A repository of the hub; without a revision it is the main branch's newest commit."""

    id: str
    revision: str | None = None

    @property
    def typed(self) -> str:
        """As the user names it: hf:ORG/NAME@REVISION."""
        return f"hf:{self.id}" + (f"@{self.revision}" if self.revision else "")

    def error(self, problem: str, hint: str, code: str = "unreadable_input") -> KvcalcError:
        """The error whose sentence begins with the name; a preset needs no network."""
        preset = self.preset()
        if preset is not None and code != "usage":
            hint = f"{hint}, or use the preset {preset} (no network)"
        return KvcalcError(code, f"{shown(self.typed, 200)} {problem}", hint)

    def preset(self) -> str | None:
        """The shipped preset that lists this repository."""
        from kvcalc.catalog.index import shipped_names  # noqa: PLC0415 - only failures ask
        from kvcalc.catalog.names import normalise  # noqa: PLC0415

        return shipped_names("models").get(normalise(self.id))


def said(response: Any) -> str:
    """The hub's own word for what is wrong, "" where it gives none."""
    return str(response.headers.get("X-Error-Code", ""))


def refused(repo: Repo, file: str, response: Any) -> KvcalcError:
    """The error for an answer of the hub that is no success."""
    status, word = int(response.status_code), said(response)
    access = "set HF_TOKEN to one with access" if _with_token(response) else "set HF_TOKEN"
    told = str(response.headers.get("X-Error-Message", "")).lower()
    if word == GATED or (status in {401, 403} and "restricted" in told):
        return repo.error(f"is gated ({status})", access)
    if word == NO_REPO:
        return repo.error(
            f"is not on the hub, or is private ({status})", f"check the name, or {access}",
            "unknown_model",
        )  # fmt: skip
    if word == NO_REVISION:
        return repo.error(
            f"has no such revision ({status})",
            "after the @ comes a branch, a tag or a whole commit hash", "unknown_model",
        )  # fmt: skip
    if status in {401, 403}:
        return repo.error(f"is gated or private: access is refused ({status})", access)
    if status == 404:
        return repo.error(f"cannot be read: no {shown(file)} (404)", f"check the name, {ENDPOINT}")
    if status == 429:
        return repo.error("cannot be read: too many requests (429)", _patience(response))
    if status >= 500:
        return repo.error(f"cannot be read: the hub has trouble ({status})", "try again later")
    return repo.error(f"cannot be read: the hub answered {status}", ENDPOINT)


def unanswered(repo: Repo, file: str, error: Exception) -> KvcalcError:
    """The error for a request that got no answer, or half of one."""
    names = {cls.__name__ for e in _causes(error) for cls in type(e).__mro__}
    if "HFValidationError" in names:
        return repo.error("is no name of the hub", "like hf:ORG/NAME@REVISION", "usage")
    if "OfflineModeIsEnabled" in names:
        return repo.error(f"is not in the hub's cache: no {file}", "unset HF_HUB_OFFLINE once")
    if names & _SLOW:
        return repo.error(f"cannot be read: {shown(file)} took too long", "try again")
    if names & _CUT:
        return repo.error(f"cannot be read: {shown(file)} was cut off", "try again")
    if names & _AWAY:
        return repo.error(
            "cannot be read: the hub cannot be reached", f"check the network, {ENDPOINT}"
        )
    problem = f"cannot be read: {type(error).__name__} at {shown(file)}"
    return repo.error(problem, f"check HF_HOME, {ENDPOINT}")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _with_token(response: Any) -> bool:
    headers = getattr(getattr(response, "request", None), "headers", {})
    return "authorization" in {str(name).lower() for name in headers}


def _patience(response: Any) -> str:
    seconds = str(response.headers.get("Retry-After", ""))
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 6:
        return f"try again in {int(seconds):,} s"
    return "try again later, with HF_TOKEN set for a higher limit"
