"""The stand-in's memory: SQLite, one writer at a time, its own clock and its own ids."""

import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portal.sandbox.stripe_double.faults import Body, missing

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS objects (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, kind TEXT NOT NULL, account TEXT NOT NULL,
    created INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS objects_kind ON objects (kind, account, seq);
CREATE TABLE IF NOT EXISTS lines (
    id TEXT PRIMARY KEY, account TEXT NOT NULL, currency TEXT NOT NULL, net INTEGER NOT NULL,
    available_on INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
    account TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL, created INTEGER NOT NULL, status INTEGER,
    body TEXT,
    PRIMARY KEY (account, key));
CREATE TABLE IF NOT EXISTS faults (
    id INTEGER PRIMARY KEY AUTOINCREMENT, method TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    moment TEXT NOT NULL,
    remaining INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL, endpoint TEXT NOT NULL, due REAL NOT NULL,
    tries INTEGER NOT NULL,
    is_done INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS policies (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, remaining INTEGER NOT NULL, value REAL NOT NULL);
"""
TABLES = ("objects", "lines", "keys", "faults", "deliveries", "policies", "meta")


class Store:
    """Objects by id, money lines by account, and small named values."""

    def __init__(self, path: Path | None, *, seed: int | None) -> None:
        self._db = sqlite3.connect(str(path) if path else ":memory:", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.executescript(_TABLES)
        self._lock = threading.RLock()
        self._random = random.Random(seed)  # noqa: S311  ids of a stand-in, not secrets

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the store; changes are kept when the block ends well and dropped when it raises."""
        with self._lock:
            outermost = not self._db.in_transaction
            if outermost:
                self._db.execute("BEGIN IMMEDIATE")
            is_done = False
            try:
                yield
                is_done = True
            finally:
                if outermost:
                    self._db.execute("COMMIT" if is_done else "ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def clear(self) -> None:
        """Forget everything."""
        with self.transaction():
            for table in TABLES:
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608  fixed names

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """Run a statement and return its rows."""
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def meta(self, name: str, default: str = "") -> str:
        """Return a named value."""
        found = self.rows("SELECT value FROM meta WHERE name = ?", name)
        return str(found[0][0]) if found else default

    def set_meta(self, name: str, value: str) -> None:
        """Keep a named value."""
        self.rows("INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)

    def now(self) -> int:
        """Return the stand-in's time in seconds."""
        return int(time.time()) + int(self.meta("clock_offset", "0"))

    def new_id(self, prefix: str) -> str:
        """Return a fresh id that looks like Stripe's."""
        letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"
        with self._lock:
            while True:
                name = prefix + "_" + "".join(self._random.choices(letters, k=24))
                if not self.rows("SELECT 1 FROM objects WHERE id = ?", name):
                    return name

    def put(self, kind: str, body: Body, *, account: str = "") -> Body:
        """Add or replace an object."""
        self.rows(
            "INSERT INTO objects (id, kind, account, created, body) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET body = excluded.body",
            body["id"],
            kind,
            account,
            self.now(),
            json.dumps(body),
        )
        return body

    def find(self, name: str, *, account: str | None = None) -> Body | None:
        """Return the object with this id, or None."""
        found = self.rows("SELECT body, account FROM objects WHERE id = ?", name)
        if not found or (account is not None and found[0][1] != account):
            return None
        body: Body = json.loads(str(found[0][0]))
        return body

    def get(self, kind: str, name: str, *, account: str = "", param: str = "id") -> Body:
        """Return the object. Raises Stripe's 404."""
        body = self.find(name, account=account)
        if body is None or body.get("object") != kind:
            raise missing(kind, name, param)
        return body

    def all(self, kind: str, *, account: str = "") -> list[Body]:
        """Return every object of a kind, newest first."""
        found = self.rows("SELECT body FROM objects WHERE kind = ? AND account = ? ORDER BY seq DESC", kind, account)
        return [json.loads(str(row[0])) for row in found]
