"""Brings records into the spool, those of one moment in one transaction: it costs as much as several records."""

import asyncio
from typing import Final

from portal.metering.services.spool_files import AlreadyClosed, SpoolFile, SpoolUnavailable

_OPEN: Final = 0


class RecordWriter:
    """One object a process. Whoever writes waits until his record is in the file: kill -9 cannot take it then.

    With 32 requests at once a record costs 4 µs instead of 13; alone it waits for one turn of the loop.
    """

    def __init__(self, file: SpoolFile) -> None:
        self._file = file
        self._waiting: list[tuple[int, bytes, asyncio.Future[int]]] = []

    async def open(self, body: bytes) -> int:
        """Write an open record and return its row. Raises SpoolUnavailable."""
        return await self._write(_OPEN, body)

    async def close(self, row: int, body: bytes) -> int:
        """Write the one close record of `row`; return its sequence number. Raises AlreadyClosed, SpoolUnavailable."""
        return await self._write(row, body)

    def _write(self, row: int, body: bytes) -> asyncio.Future[int]:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[int] = loop.create_future()
        self._waiting.append((row, body, written))
        if len(self._waiting) == 1:
            loop.call_soon(self._write_all)
        return written

    def _write_all(self) -> None:
        # Whoever was cancelled meanwhile has nobody left to close his record.
        waiting = [record for record in self._waiting if not record[2].done()]
        self._waiting = []
        if len(waiting) == 1:
            self._write_one(*waiting[0])
        elif waiting:
            self._write_together(waiting)

    def _write_one(self, row: int, body: bytes, written: asyncio.Future[int]) -> None:
        try:
            number = self._file.open(body) if row == _OPEN else self._file.close(row, body)
        except (SpoolUnavailable, AlreadyClosed) as error:
            written.set_exception(error)
        else:
            written.set_result(number)

    def _write_together(self, waiting: list[tuple[int, bytes, asyncio.Future[int]]]) -> None:
        opened = [record for record in waiting if record[0] == _OPEN]
        closed = [record for record in waiting if record[0] != _OPEN]
        try:
            rows, seqs = self._file.write([body for _, body, _ in opened], [(row, body) for row, body, _ in closed])
        except AlreadyClosed:
            for record in waiting:  # one of them is refused, not those beside it
                self._write_one(*record)
        except SpoolUnavailable as error:
            for _, _, written in waiting:
                written.set_exception(error)
        else:
            for number, (_, _, written) in (*zip(rows, opened, strict=True), *zip(seqs, closed, strict=True)):
                written.set_result(number)
