"""What the agent does about releases: tells the pool how it stands, and asks for one where its owner lets it."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from poolhouse_agent.errors import ConfigError, UpdateError
from poolhouse_agent.installation import Installation
from poolhouse_agent.state import State
from poolhouse_agent.updates import manifest
from poolhouse_agent.updates.applying import WANTED

log = logging.getLogger(__name__)

HOLD = "updates-held"
_UNREACHABLE = "release_unreachable"
_ASK_AGAIN = timedelta(hours=1)


class Updates:
    """The owner's word on updates, and the pool's offers."""

    def __init__(self, state: State, installed: Installation | None) -> None:
        self._state = state
        self._installed = installed
        self._offered = ""
        self._heard_at: datetime | None = None

    @property
    def policy(self) -> str:
        """`automatic`, `held` by the owner, or `manual` where this installation cannot update itself."""
        origin = self._installed.origin() if self._installed else None
        if origin is None or not origin.public_key:
            return "manual"
        return "held" if (self._state.folder / HOLD).exists() else "automatic"

    def hold(self, *, is_held: bool) -> None:
        """Hold updates back, or let them come again: the owner's word, which the pool cannot overrule."""
        if is_held:
            self._state.write(HOLD, {})
        else:
            (self._state.folder / HOLD).unlink(missing_ok=True)

    def told(self) -> dict[str, str]:
        """What a heartbeat says. A damaged file keeps updates away, and never the machine from serving."""
        try:
            last, policy = self._last(), self.policy
        except ConfigError as error:
            return {"policy": "manual", "tried": "", "code": error.code}
        return {"policy": policy, "tried": str(last.get("tried", "")), "code": str(last.get("code", ""))}

    def has_failed(self, version: str) -> bool:
        """Whether the version was tried here and is not to be tried again; a pool that was away is no failure."""
        told = self.told()
        return told["tried"] == version and told["code"] not in {"", _UNREACHABLE}

    def hear(self, version: str, *, now: datetime) -> None:
        """Ask for the version that the pool offers, unless the owner holds back or it has failed here.

        One that is still offered after an hour is asked for again: the pool or a registry may have been away.
        """
        is_heard = version == self._offered and self._heard_at is not None and now - self._heard_at < _ASK_AGAIN
        if not version or is_heard:
            return
        self._offered, self._heard_at = version, now
        try:
            manifest.version_parts(version)
        except UpdateError as error:
            log.warning("update.refused", extra={"code": error.code, "detail": error.detail})
            return
        policy, has_failed = self.told()["policy"], self.has_failed(version)
        if policy != "automatic" or has_failed:
            log.info("update.offered", extra={"release": version, "policy": policy, "has_failed": has_failed})
            return
        log.info("update.wanted", extra={"release": version})
        self._state.write(WANTED, {"version": version})

    def _last(self) -> Mapping[str, Any]:
        return self._installed.last_update() if self._installed else {}
