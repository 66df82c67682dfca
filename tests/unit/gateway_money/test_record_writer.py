"""Records of one moment share a transaction; each waits for its own, and only the guilty one is refused."""

import asyncio
from collections.abc import Iterator

import pytest

from portal.gateway.record_writer import RecordWriter
from portal.metering.services.spool_files import AlreadyClosed, SpoolFile, SpoolPath, SpoolUnavailable


@pytest.fixture
def file(tmp_path) -> Iterator[SpoolFile]:
    path = SpoolPath.of(tmp_path, index=0, spool_id="spool_a")
    made = SpoolFile.create(path, spool_id="spool_a", process="gateway@0", host="here")
    yield made
    made.shut()


def _closed(file: SpoolFile) -> list[tuple[int, bytes, bytes]]:
    reader = file.reader()
    try:
        return [(row.seq, row.opened, row.closed) for row in reader.closed_after(0, limit=100)]
    finally:
        reader.shut()


def test_records_of_one_moment_are_one_transaction_and_in_their_order(file):
    statements: list[str] = []

    async def work():
        writer = RecordWriter(file)
        rows = await asyncio.gather(*[writer.open(b"open %d" % number) for number in range(3)])
        file._connection.set_trace_callback(statements.append)
        seqs = await asyncio.gather(*[writer.close(row, b"close %d" % row) for row in rows], writer.open(b"late"))
        file._connection.set_trace_callback(None)
        return rows, seqs

    rows, seqs = asyncio.run(work())

    assert (rows, seqs) == ([1, 2, 3], [1, 2, 3, 4])
    assert statements.count("COMMIT") == 1
    assert _closed(file) == [(n, b"open %d" % (n - 1), b"close %d" % n) for n in (1, 2, 3)]
    assert [row.opened for row in file.unclosed()] == [b"late"]


def test_a_second_close_is_refused_and_those_beside_it_are_not(file):
    async def work():
        writer = RecordWriter(file)
        first, second = await asyncio.gather(writer.open(b"a"), writer.open(b"b"))
        await writer.close(first, b"bill")
        return await asyncio.gather(
            writer.close(first, b"again"), writer.close(second, b"other"), return_exceptions=True
        )

    refused, seq = asyncio.run(work())

    assert isinstance(refused, AlreadyClosed)
    assert seq == 2
    assert _closed(file) == [(1, b"a", b"bill"), (2, b"b", b"other")]


def test_what_nobody_waits_for_any_more_is_not_written(file):
    async def work():
        writer = RecordWriter(file)
        gone = asyncio.ensure_future(writer.open(b"gone"))
        await asyncio.sleep(0)
        gone.cancel()
        return await writer.open(b"stays")

    assert asyncio.run(work()) == 1
    assert [row.opened for row in file.unclosed()] == [b"stays"]


def test_a_file_that_cannot_be_written_refuses_all_and_nothing_is_in_it(file, tmp_path):
    async def work():
        writer = RecordWriter(file)
        blocker = SpoolFile.load(file.path)
        file._connection.execute("PRAGMA busy_timeout = 10")
        blocker._connection.execute("BEGIN IMMEDIATE")
        try:
            return await asyncio.gather(writer.open(b"a"), writer.open(b"b"), return_exceptions=True)
        finally:
            blocker._connection.execute("ROLLBACK")
            blocker.shut()

    assert [type(refusal) for refusal in asyncio.run(work())] == [SpoolUnavailable, SpoolUnavailable]
    assert file.unclosed() == []
    assert file.open(b"later") == 1
