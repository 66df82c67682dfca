"""Fetches a model's files: resumed where it stopped, checked by their digests, within disk, rate and quota.

Runs as a program (`fetch.py ORDER`) under a host, with network and without GPUs; the engine has it the other way round.
The standard library alone. Progress goes to `progress.json` beside the order, the end of it to `result.json`.
"""

import errno
import hashlib
import http.client
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

PROGRESS, RESULT = "progress.json", "result.json"
_CHUNK = 1 << 18
_TIMEOUT_S = 30.0
_TRIES = 5
_FIRST_PAUSE_S = 1.0
_TELL_EVERY_S = 0.5
_PARTIAL, _RANGE_BEYOND = 206, 416
_FIRST_ERROR = 400  # below it: a redirect that is not followed
_FOR_GOOD = frozenset({400, 401, 403, 404, 410, 451})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Failed(Exception):
    """The download cannot be finished; `code` is of the failure catalogue."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class Broken(Exception):
    """The connection failed in a way that another try may cure."""


@dataclass(frozen=True, slots=True)
class File:
    """One file: its path below the folder, and what its content must be."""

    path: str
    sha256: str


@dataclass(slots=True)
class Order:
    """What to fetch. `most_bytes` bounds what may be transferred (0: no bound), `rate_bytes_s` how fast."""

    base: str
    files: Sequence[File]
    into: Path
    rate_bytes_s: int
    keep_free_bytes: int
    most_bytes: int
    pause_s: float = _FIRST_PAUSE_S


@dataclass(slots=True)
class Told:
    """Progress, written down now and then."""

    folder: Path
    total_bytes: int = 0
    done_bytes: int = 0
    fetched_bytes: int = 0
    _told_at: float = 0.0

    def note(self, *, is_due: bool = False) -> None:
        """Write the progress down, unless that was just done."""
        now = time.monotonic()
        if is_due or now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            replace(self.folder / PROGRESS, {"done_bytes": self.done_bytes, "total_bytes": self.total_bytes})


@dataclass(slots=True)
class Pace:
    """Holds a transfer to its rate."""

    rate_bytes_s: int
    _ahead_until: float = field(default_factory=time.monotonic)

    def spend(self, count: int) -> None:
        """Wait as long as these bytes may take."""
        if self.rate_bytes_s:
            now = time.monotonic()
            self._ahead_until = max(now, self._ahead_until) + count / self.rate_bytes_s
            time.sleep(max(0.0, self._ahead_until - now - _TELL_EVERY_S / 5))


class Stays(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to anything else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the next request. Raises Failed."""
        try:
            require_address(newurl, after=req.full_url)
        except Failed:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def require_address(url: str, *, after: str = "") -> None:
    """Allow https, and plain http to this machine where that is where it began. Raises Failed."""
    parts = urllib.parse.urlsplit(url)
    began = urllib.parse.urlsplit(after or url)
    is_local = parts.hostname in _LOOPBACK and began.hostname in _LOOPBACK
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise Failed("download_refused", f"{parts.scheme}://{parts.hostname} is not https")


_OPENER = urllib.request.build_opener(Stays)


def main() -> int:
    """Serve one order; return 0 where all files are there."""
    path = Path(sys.argv[1])
    told = Told(path.parent)
    try:
        fetch(read(path), told)
    except Failed as failure:
        result = {"code": failure.code, "detail": failure.detail, "fetched_bytes": told.fetched_bytes}
        replace(path.parent / RESULT, result)
        return 1
    replace(path.parent / RESULT, {"code": "", "detail": "", "fetched_bytes": told.fetched_bytes})
    return 0


def read(path: Path) -> Order:
    """Read an order. Raises Failed."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        files = [File(str(one["path"]), str(one["sha256"])) for one in raw.pop("files")]
        return Order(files=files, **{**raw, "into": Path(raw["into"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed("download_failed", f"the order cannot be read: {error}") from None


def fetch(order: Order, told: Told) -> None:
    """Fetch all files, and let the folder have its name only when every digest is right. Raises Failed."""
    part = order.into.with_name(order.into.name + ".part")
    part.mkdir(parents=True, exist_ok=True, mode=0o700)
    sizes = {one.path: _retried(order, partial(_size, order, one)) for one in order.files}
    there = sum(_there(part / one.path) for one in order.files)
    told.total_bytes, told.done_bytes = sum(sizes.values()), 0
    _require_room(order, part, missing=told.total_bytes - there)
    told.note(is_due=True)
    pace = Pace(order.rate_bytes_s)
    for one in order.files:
        _retried(order, partial(_file, order, one, part, told, pace))
    told.note(is_due=True)
    part.rename(order.into)


def _retried(order: Order, work: Any) -> Any:
    """Do it again a few times where the connection breaks. Raises Failed."""
    pause_s = order.pause_s
    for tries_left in reversed(range(_TRIES)):
        try:
            return work()
        except Broken as broken:
            if not tries_left:
                raise Failed("download_failed", str(broken)) from None
        time.sleep(pause_s)
        pause_s *= 2
    return None


def _require_room(order: Order, part: Path, *, missing: int) -> None:
    free = shutil.disk_usage(part).free
    if missing > free - order.keep_free_bytes:
        kept = order.keep_free_bytes >> 30
        raise Failed("disk_full", f"{missing >> 20} MiB are missing, {free >> 20} MiB are free, {kept} GiB stay free")
    if order.most_bytes and missing > order.most_bytes:
        raise Failed(
            "download_quota_reached", f"{missing >> 20} MiB are missing, {order.most_bytes >> 20} MiB are left"
        )


def _size(order: Order, one: File) -> int:
    with _open(_request(order, one, method="HEAD")) as answer:
        length = answer.headers.get("x-linked-size") or answer.headers.get("content-length") or "0"
        return int(length) if length.isdigit() else 0


def _file(order: Order, one: File, part: Path, told: Told, pace: Pace) -> None:
    """Fetch one file into the folder, or what is missing of it. Raises Failed, Broken."""
    path = part / one.path
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    before = told.done_bytes
    try:
        digest = _known(path, told)
        if digest.hexdigest() != one.sha256:
            digest = _transfer(_request(order, one, start=_there(path)), path, digest, told, pace)
    except (OSError, http.client.HTTPException) as error:
        told.done_bytes = before
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise Failed("disk_full", str(path)) from None
        raise Broken(f"{one.path}: {type(error).__name__}: {error}"[:300]) from None
    if digest.hexdigest() != one.sha256:
        path.unlink()
        told.done_bytes = before
        raise Broken(f"{one.path} has another digest than the catalogue names")


def _known(path: Path, told: Told) -> "hashlib._Hash":
    """The digest of what is there already."""
    digest = hashlib.sha256()
    if path.exists():
        with path.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                digest.update(chunk)
                told.done_bytes += len(chunk)
                told.note()
    return digest


def _transfer(
    request: urllib.request.Request, path: Path, digest: "hashlib._Hash", told: Told, pace: Pace
) -> "hashlib._Hash":
    """Append what the server sends, or write it all anew where it knows no ranges; return the whole's digest."""
    with _open(request) as answer:
        is_rest = answer.status == _PARTIAL
        if not is_rest:
            told.done_bytes -= _there(path)
            digest = hashlib.sha256()
        with path.open("ab" if is_rest else "wb") as output:
            _copy(answer, output, digest, told, pace)
    return digest


def _request(order: Order, one: File, *, method: str = "GET", start: int = 0) -> urllib.request.Request:
    url = f"{order.base}/{urllib.parse.quote(one.path)}"
    require_address(url)
    headers = {"user-agent": "poolhouse-agent", "accept-encoding": "identity"}
    if start:
        headers["range"] = f"bytes={start}-"
    return urllib.request.Request(url, method=method, headers=headers)  # noqa: S310  https, or this machine


def _open(request: urllib.request.Request) -> Any:
    """Open an address. Raises Failed where the server refuses for good, Broken where another try may help."""
    try:
        return _OPENER.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _RANGE_BEYOND:  # more is there than the server has: what is there is wrong
            return _OPENER.open(_without_range(request), timeout=_TIMEOUT_S)
        if error.code in _FOR_GOOD or error.code < _FIRST_ERROR:
            raise Failed("download_refused", f"{request.full_url} answered {error.code}") from None
        raise Broken(f"{request.full_url} answered {error.code}") from None
    except (OSError, http.client.HTTPException) as error:
        raise Broken(f"{request.full_url}: {error}"[:300]) from None


def _without_range(request: urllib.request.Request) -> urllib.request.Request:
    headers = {name: value for name, value in request.header_items() if name.lower() != "range"}
    return urllib.request.Request(request.full_url, headers=headers)  # noqa: S310  the same address


def _copy(answer: Any, output: BinaryIO, digest: Any, told: Told, pace: Pace) -> None:
    while chunk := answer.read(_CHUNK):
        output.write(chunk)
        digest.update(chunk)
        told.done_bytes += len(chunk)
        told.fetched_bytes += len(chunk)
        told.note()
        pace.spend(len(chunk))
    if answer.length:  # http.client ends a body that is cut short like a whole one
        raise ConnectionError(f"the connection ended {answer.length} bytes early")


def _there(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def replace(path: Path, value: object) -> None:
    """Write a JSON file as a whole."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as output:
        json.dump(value, output)
    Path(temporary).replace(path)


if __name__ == "__main__":
    sys.exit(main())
