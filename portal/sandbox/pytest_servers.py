"""pytest plugin (`-p portal.sandbox.pytest_servers`): gives the suite real servers.

Where DATABASE_URL and REDIS_URL are set they are used. Otherwise pytest's main process starts embedded servers when
this module is imported, before Django reads its settings, and stops them at exit; xdist's workers inherit the URLs.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def _start() -> None:
    from portal.sandbox import servers

    folder = Path(tempfile.mkdtemp(prefix="poolhouse-tests-"))
    main = os.getpid()
    started: list[servers.Server] = []

    def stop() -> None:
        if os.getpid() == main:
            for server in started:
                server.stop()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    if not os.environ.get("DATABASE_URL"):
        started.append(servers.start_postgres(folder / "postgres", is_durable=False))
        os.environ["DATABASE_URL"] = servers.create_database(started[-1].url, "poolhouse")
    if not os.environ.get("REDIS_URL"):
        started.append(servers.start_valkey(folder / "valkey"))
        os.environ["REDIS_URL"] = started[-1].url


if not (os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")):
    _start()
