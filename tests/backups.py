"""Backups of the test's own database, real ones: a copy of all its files, put in its place again later."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection
from psycopg import sql

_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


class Backup:
    """A copy of the whole database as it was when it was taken."""

    def __init__(self, server: str, name: str) -> None:
        self._server = server
        self._name = name
        self._copy = f"{name}_backup"

    def take(self) -> None:
        """Copy the database."""
        with self._maintenance() as cursor:
            cursor.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(self._copy)))
            self._clone(cursor, self._copy, self._name)

    def restore(self) -> None:
        """Put the copy in the database's place; all that was written since is lost."""
        with self._maintenance() as cursor:
            cursor.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self._name)))
            self._clone(cursor, self._name, self._copy)

    def forget(self) -> None:
        """Delete the copy."""
        with self._maintenance() as cursor:
            cursor.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(self._copy)))

    @contextmanager
    def _maintenance(self) -> Iterator[psycopg.Cursor]:
        connection.close()
        with psycopg.connect(self._server, autocommit=True) as link, link.cursor() as cursor:
            yield cursor

    def _clone(self, cursor: psycopg.Cursor, made: str, source: str) -> None:
        cursor.execute(_END, [source])
        cursor.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(made), sql.Identifier(source)))


def of_this_database() -> Backup:
    """Return the means to back up the database that the test runs on."""
    given = connection.get_connection_params()
    parts = {name: given[name] for name in ("host", "port", "user", "password") if given.get(name)}
    return Backup(psycopg.conninfo.make_conninfo(dbname="postgres", **parts), str(given["dbname"]))
