"""How fast the disk is where weights and state lie."""

import asyncio
import contextlib
import mmap
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from poolhouse_agent.benchmarks.step import Say, Step
from poolhouse_agent.checks.result import Result, Status, measured, skipped, trouble

_BLOCK = 4 << 20
_LEAST_FREE = 1 << 30
_MB = 1e6


def step(folder: Path, *, size: int) -> Step:
    """Write a file of `size` bytes in `folder`, read it back past the cache, remove it."""

    async def work(say: Say) -> list[Result]:
        return await asyncio.to_thread(_measure, folder, size, say)

    return Step("disk.write", "disk", 10, work)


def _measure(folder: Path, size: int, say: Say) -> list[Result]:
    try:
        if shutil.disk_usage(folder).free < size + _LEAST_FREE:
            return [skipped("disk.write", f"too little space in {folder}", code="disk_space_low")]
        return _write_and_read(folder, size, say)
    except OSError as error:
        return [trouble("disk.write", Status.FAIL, "state_unwritable", f"{folder}: {error.strerror}")]


def _write_and_read(folder: Path, size: int, say: Say) -> list[Result]:
    with _scratch(folder) as path:
        block = secrets.token_bytes(_BLOCK)  # noise: a file system that compresses gains nothing
        count = max(1, size // _BLOCK)
        written_s = _write(path, block, count, say)
        read_s, is_direct = _read(path, say)
    megabytes = count * _BLOCK / _MB
    return [
        measured("disk.write", megabytes / written_s, detail=str(folder), evidence={"bytes": count * _BLOCK}),
        measured("disk.read", megabytes / read_s, detail=str(folder), evidence={"is_direct": is_direct}),
    ]


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    path = folder / f".benchmark-{secrets.token_hex(6)}"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _write(path: Path, block: bytes, count: int, say: Say) -> float:
    began = time.perf_counter()
    with path.open("wb", buffering=0) as output:
        for number in range(count):
            output.write(block)
            say(0.6 * (number + 1) / count)
        os.fsync(output.fileno())
    return time.perf_counter() - began


def _read(path: Path, say: Say) -> tuple[float, bool]:
    """Return the seconds, and whether the cache was passed by: some file systems cannot."""
    handle, is_direct = _open(path)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        size, done = path.stat().st_size, 0
        with mmap.mmap(-1, _BLOCK) as buffer:  # a page's alignment, which direct reading asks for
            began = time.perf_counter()
            while got := os.preadv(handle, [buffer], done):
                done += got
                say(0.6 + 0.4 * done / size)
            return time.perf_counter() - began, is_direct
    finally:
        os.close(handle)


def _open(path: Path) -> tuple[int, bool]:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT), True
    except OSError:
        return os.open(path, os.O_RDONLY), False
