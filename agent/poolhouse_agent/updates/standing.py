"""What the agent does about releases: tells the pool how it stands, and asks for one where its owner lets it."""

import logging
from collections.abc import Mapping
from typing import Any

from poolhouse_agent.errors import UpdateError
from poolhouse_agent.installation import Installation
from poolhouse_agent.state import State
from poolhouse_agent.updates import manifest
from poolhouse_agent.updates.applying import WANTED

log = logging.getLogger(__name__)

HOLD = "updates-held"
_UNREACHABLE = "release_unreachable"


class Updates:
    """The owner's word on updates, and the pool's offers."""

    def __init__(self, state: State, installed: Installation | None) -> None:
        self._state = state
        self._installed = installed
        self._offered = ""

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
        """What a heartbeat says."""
        last = self._last()
        return {"policy": self.policy, "tried": str(last.get("tried", "")), "code": str(last.get("code", ""))}

    def hear(self, version: str) -> None:
        """Ask for the version that the pool offers, once, unless the owner holds back or it has failed here."""
        if not version or version == self._offered:
            return
        self._offered = version
        try:
            manifest.version_parts(version)
        except UpdateError as error:
            log.warning("update.refused", extra={"code": error.code, "detail": error.detail})
            return
        last, policy = self._last(), self.policy
        has_failed = last.get("tried") == version and last.get("code") not in {"", _UNREACHABLE}
        if policy != "automatic" or has_failed:
            log.info("update.offered", extra={"release": version, "policy": policy, "has_failed": has_failed})
            return
        log.info("update.wanted", extra={"release": version})
        self._state.write(WANTED, {"version": version})

    def _last(self) -> Mapping[str, Any]:
        return self._installed.last_update() if self._installed else {}
