"""This process's own spool: made and locked at start, known to the database before the first credit is leased to it."""

import socket
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from portal.core import ids
from portal.gateway.record_writer import RecordWriter
from portal.gateway.threads import DatabaseThreads
from portal.metering.services import spool_files, spools
from portal.metering.services.spool_files import SpoolFile, SpoolPath, SpoolUnavailable

__all__ = ["Spool", "SpoolUnavailable"]


class Spool:
    """The file, the lock that says its process lives, and its row in the database once that could be reached."""

    def __init__(self, *, folder: Path, index: int, process: str) -> None:
        """Make the file. Raises SpoolUnavailable."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self.spool_id = ids.public_id("spool")
        self.shipped_seq = 0
        self._process = process
        self._row_id: int | None = None
        self._held = ExitStack()
        path = SpoolPath.of(folder, index=index, spool_id=self.spool_id)
        if not self._held.enter_context(spool_files.locked(path)):
            raise SpoolUnavailable(f"another process holds the new spool {path.database}")
        self.file = SpoolFile.create(path, spool_id=self.spool_id, process=process, host=socket.gethostname()[:120])
        self.records = RecordWriter(self.file)

    async def row_id(self, threads: DatabaseThreads, *, now: datetime) -> int:
        """Return the id of the spool's row, registering it on first use. Raises django.db.Error, TimeoutError."""
        if self._row_id is None:
            row = await threads.run(
                spools.register,
                public_id=self.spool_id,
                process=self._process[:64],
                host=self.file.host,
                now=now,
            )
            self._row_id = row.pk
        return self._row_id

    @property
    def is_registered(self) -> bool:
        """Whether the database knows the spool, and so whether leases may hang on it."""
        return self._row_id is not None

    def leave(self, *, is_empty: bool) -> None:
        """Close the file; delete it where nothing in it is needed any more, else the next process adopts it."""
        self.file.shut()
        if is_empty:
            self.file.path.remove()
        self._held.close()
