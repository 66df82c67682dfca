"""A spool: one SQLite file a gateway process, beside a lock file that its process holds while it lives.

WAL with synchronous=NORMAL: what is written survives kill -9 of the process. Checkpoints, which sync the disk, are left
to a thread. The lock is a file of its own because closing any descriptor of an SQLite file drops SQLite's locks.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from portal.core.errors import DomainError

_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE opened (row INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE marked (row INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE closed (seq INTEGER PRIMARY KEY, row INTEGER NOT NULL UNIQUE, body BLOB NOT NULL);
"""
_SUFFIX = ".sqlite3"
_BUSY_TIMEOUT_S = 2.0
_CHECKPOINT_BYTES = 4 * 1024 * 1024
_TRUNCATE_BYTES = 64 * 1024 * 1024


class SpoolUnavailable(DomainError):
    """The spool cannot be written: nothing may be served, because it could not be metered."""

    code = "billing_unavailable"


class AlreadyClosed(DomainError):
    """The attempt has its close record; it is never closed twice."""

    code = "attempt_closed"


@dataclass(frozen=True, slots=True)
class ClosedAttempt:
    """A close record with the open record it closes."""

    seq: int
    opened: bytes
    closed: bytes


@dataclass(frozen=True, slots=True)
class UnclosedAttempt:
    """An open record without a close, and its last mark."""

    row: int
    opened: bytes
    marked: bytes | None


@dataclass(frozen=True, slots=True)
class SpoolPath:
    """Where a spool lies; the name carries the process's index and the spool's id."""

    database: Path

    @classmethod
    def of(cls, folder: Path, *, index: int, spool_id: str) -> Self:
        """Return the path of a process's spool."""
        return cls(folder / f"{index:03d}-{spool_id}{_SUFFIX}")

    @property
    def spool_id(self) -> str:
        """The id in the name; the file itself carries it too."""
        return self.database.name.removesuffix(_SUFFIX).split("-", 1)[1]

    @property
    def lock(self) -> Path:
        """The lock file beside it."""
        return self.database.with_suffix(".lock")

    def remove(self) -> None:
        """Delete the spool's files; the caller holds the lock."""
        for suffix in ("", "-wal", "-shm"):
            self.database.with_name(self.database.name + suffix).unlink(missing_ok=True)
        self.lock.unlink(missing_ok=True)


def list_spools(folder: Path) -> list[SpoolPath]:
    """Return all spools in the folder, oldest name first."""
    return [SpoolPath(path) for path in sorted(folder.glob(f"*-*{_SUFFIX}"))]


@contextmanager
def locked(path: SpoolPath) -> Iterator[bool]:
    """Try to hold the spool's lock; yields whether it is ours. The kernel drops it when the process dies."""
    descriptor = os.open(path.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _take(descriptor)
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class SpoolFile:
    """One open spool file. Its writer lives in one thread; `reader` returns another connection for a thread."""

    def __init__(self, path: SpoolPath, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        about = dict(connection.execute("SELECT name, value FROM about"))
        self.spool_id: str = about["spool_id"]
        self.process: str = about["process"]
        self.host: str = about["host"]
        newest = connection.execute("SELECT max(row) FROM opened").fetchone()[0] or 0
        last = connection.execute("SELECT max(seq) FROM closed").fetchone()[0] or 0
        self._row = int(newest)
        self.last_seq = max(int(last), int(about["pruned_seq"]))

    @classmethod
    def create(cls, path: SpoolPath, *, spool_id: str, process: str, host: str) -> Self:
        """Make the file; the caller holds its lock. Raises SpoolUnavailable."""
        with _translated():
            connection = _connect(path.database)
            about = {"spool_id": spool_id, "process": process, "host": host, "pruned_seq": "0"}
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.strip().split(";\n"):
                connection.execute(statement)
            connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            connection.execute("COMMIT")
            return cls(path, connection)

    @classmethod
    def is_blank(cls, path: SpoolPath) -> bool:
        """Tell whether the process died before it made the file; the caller holds the lock. Raises SpoolUnavailable."""
        with _translated():
            connection = _connect(path.database)
            try:
                return not connection.execute("SELECT 1 FROM sqlite_master").fetchall()
            finally:
                connection.close()

    @classmethod
    def load(cls, path: SpoolPath) -> Self:
        """Open a file that exists; the caller holds its lock. Raises SpoolUnavailable."""
        with _translated():
            return cls(path, _connect(path.database))

    def open(self, body: bytes) -> int:
        """Write an open record and return its row. Raises SpoolUnavailable."""
        row = self._row + 1
        try:
            self._connection.execute("INSERT INTO opened VALUES (?, ?)", (row, body))
        except sqlite3.Error as error:
            raise _unavailable(error) from error
        self._row = row
        return row

    def mark(self, marks: Iterable[tuple[int, bytes]]) -> None:
        """Write the latest marks of open records in one transaction. Raises SpoolUnavailable."""
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO marked VALUES (?, ?)", marks)

    def close(self, row: int, body: bytes) -> int:
        """Write the one close record of `row`; return its sequence number. Raises AlreadyClosed, SpoolUnavailable."""
        seq = self.last_seq + 1
        try:
            self._connection.execute("INSERT INTO closed VALUES (?, ?, ?)", (seq, row, body))
        except sqlite3.IntegrityError as error:
            raise AlreadyClosed(f"record {row} of {self.spool_id} is closed already") from error
        except sqlite3.Error as error:
            raise _unavailable(error) from error
        self.last_seq = seq
        return seq

    def write(self, opened: Sequence[bytes], closed: Sequence[tuple[int, bytes]]) -> tuple[range, range]:
        """Write open and close records in one transaction, all or none; return their rows and sequence numbers.

        Raises AlreadyClosed, SpoolUnavailable.
        """
        rows = range(self._row + 1, self._row + 1 + len(opened))
        seqs = range(self.last_seq + 1, self.last_seq + 1 + len(closed))
        with self._transaction():
            try:
                self._connection.executemany("INSERT INTO opened VALUES (?, ?)", zip(rows, opened, strict=True))
                closes = ((seq, row, body) for seq, (row, body) in zip(seqs, closed, strict=True))
                self._connection.executemany("INSERT INTO closed VALUES (?, ?, ?)", closes)
            except sqlite3.IntegrityError as error:
                raise AlreadyClosed(f"a record of {self.spool_id} is closed already") from error
        self._row += len(opened)
        self.last_seq += len(closed)
        return rows, seqs

    def unclosed(self) -> list[UnclosedAttempt]:
        """Return the open records that have no close, with their last marks."""
        query = """
            SELECT opened.row, opened.body, marked.body FROM opened LEFT JOIN marked USING (row)
            WHERE opened.row NOT IN (SELECT row FROM closed) ORDER BY opened.row
        """
        with _translated():
            return [UnclosedAttempt(*found) for found in self._connection.execute(query)]

    def prune(self, seq: int) -> None:
        """Forget the records up to `seq`: they are in the database. Raises SpoolUnavailable."""
        with self._transaction():
            rows = "(SELECT row FROM closed WHERE seq <= ?)"
            self._connection.execute(f"DELETE FROM marked WHERE row IN {rows}", (seq,))  # noqa: S608  a constant
            self._connection.execute(f"DELETE FROM opened WHERE row IN {rows}", (seq,))  # noqa: S608  a constant
            self._connection.execute("DELETE FROM closed WHERE seq <= ?", (seq,))
            self._connection.execute("UPDATE about SET value = ? WHERE name = 'pruned_seq'", (str(seq),))

    def reader(self) -> "SpoolReader":
        """Return a second connection for the thread that ships and checkpoints. Raises SpoolUnavailable."""
        with _translated():
            return SpoolReader(self.path.database, _connect(self.path.database, is_shared=True))

    def shut(self) -> None:
        """Close the connection; the file stays."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


class SpoolReader:
    """Reads what is to be shipped and moves the log into the file; used by one thread at a time."""

    def __init__(self, database: Path, connection: sqlite3.Connection) -> None:
        self._database = database
        self._connection = connection

    def closed_after(self, seq: int, *, limit: int) -> list[ClosedAttempt]:
        """Return the next close records in order. Raises SpoolUnavailable."""
        query = """
            SELECT closed.seq, opened.body, closed.body FROM closed JOIN opened USING (row)
            WHERE closed.seq > ? ORDER BY closed.seq LIMIT ?
        """
        with _translated():
            return [ClosedAttempt(*found) for found in self._connection.execute(query, (seq, limit))]

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file where it has grown; only a very long one makes the writer wait."""
        log = self._database.with_name(self._database.name + "-wal")
        size = log.stat().st_size if log.exists() else 0
        if size > _CHECKPOINT_BYTES:
            with _translated():
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if size > _TRUNCATE_BYTES:
            with _translated():
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def shut(self) -> None:
        """Close the connection."""
        self._connection.close()


def _connect(database: Path, *, is_shared: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        database, isolation_level=None, timeout=_BUSY_TIMEOUT_S, check_same_thread=not is_shared
    )
    connection.execute("PRAGMA journal_mode=WAL").fetchone()
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    return connection


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise _unavailable(error) from error


def _unavailable(error: Exception) -> SpoolUnavailable:
    return SpoolUnavailable(
        f"the usage spool cannot be used: {error}", fix="free disk space or repair the spool folder, then retry"
    )
