"""Keeps what the owner allows now: follows the owner's files, and watches for the owner's own use of a GPU."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.owner import book, gpu_use
from poolhouse_agent.owner import standing as standings
from poolhouse_agent.owner.book import Book
from poolhouse_agent.owner.gpu_use import Use
from poolhouse_agent.owner.standing import Action, Standing
from poolhouse_agent.state import State, Wish

log = logging.getLogger(__name__)

# A pause between two runs of the owner's own work is no invitation to load an engine in between.
CLEAR_AFTER = timedelta(seconds=60)


class Owner:
    """`look` says what the owner allows. `rules` are those in force; nothing the portal says changes them."""

    def __init__(
        self,
        state: State,
        table: Mapping[str, Any],
        *,
        gpus: Callable[[], GpuReport],
        engines: Path,
    ) -> None:
        self._state = state
        self._table = table
        self._gpus = gpus
        self._engines = engines
        self._stamp: object = None
        self._seen: GpuReport | None = None
        self._uses: list[Use] = []
        self._used_at: datetime | None = None
        self._use = ""
        self._book = book.load(state)
        self.rules = book.merged(table, self._book, where="the owner's rules")
        self.standing = Standing(Action.SERVE)

    @property
    def book(self) -> Book:
        """What the owner set by command."""
        return self._book

    @property
    def uses(self) -> tuple[Use, ...]:
        """The owner's own processes on the GPUs, as the newest report has them."""
        return tuple(self._uses)

    def look(self, *, now: datetime) -> Standing:
        """Decide again and return it; a file that has become unreadable leaves the rules as they were."""
        self._read_again()
        before, self.standing = (
            self.standing,
            standings.decide(
                rules=self.rules,
                pause=self._book.pause,
                in_use=self._in_use(now),
                is_draining=self._state.wish() is not Wish.SERVE,
                now=now,
            ),
        )
        if (before.action, before.code) != (self.standing.action, self.standing.code):
            until = self.standing.until.isoformat() if self.standing.until else ""
            fields = {"code": self.standing.code, "detail": self.standing.detail, "until": until}
            log.info(f"owner.{self.standing.action.value}", extra=fields)  # noqa: G004  one of three fixed names
        return self.standing

    def _read_again(self) -> None:
        stamp = self._state.stamp(book.FILE)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            found = book.load(self._state)
            self.rules = book.merged(self._table, found, where="the owner's rules")
        except ConfigError as error:
            log.error("owner.unreadable", extra={"code": error.code, "detail": error.detail})  # noqa: TRY400  no crash
            return
        self._book = found

    def _in_use(self, now: datetime) -> str:
        """What of the owner's uses a GPU; for a while after its end, and while nobody can tell, what last did."""
        if not self.rules.is_yielding:
            self._uses, self._used_at, self._use = [], None, ""
            return ""
        report = self._gpus()
        if report is not self._seen:
            self._seen = report
            ours = gpu_use.ours_below(self._engines)
            self._uses = gpu_use.owners_uses(report.gpus, rules=self.rules, ours=ours)
        is_blind = not report.gpus and bool(report.errors)
        if self._uses:
            self._used_at, self._use = now, ", ".join(str(use) for use in self._uses[:3])
        elif self._used_at is not None and not is_blind and now - self._used_at >= CLEAR_AFTER:
            self._used_at, self._use = None, ""
        return self._use
