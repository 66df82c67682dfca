"""The agent's session with the portal: opened by a signature, renewed before it ends."""

import asyncio
import logging
import secrets
from datetime import UTC, datetime

from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import PortalError, fix_of
from poolhouse_agent.identity import Identity
from poolhouse_agent.protocol import messages
from poolhouse_agent.protocol.messages import Session

log = logging.getLogger(__name__)

_RENEW_WHEN_LEFT = 0.35
_SKEW_WORTH_A_WORD_S = 60
SUPERSEDED_WAIT_S = 300.0
_OPEN_ANEW = frozenset({"session_expired", "session_invalid"})


async def enrol(
    client: PortalClient, identity: Identity, *, token: str, name: str, is_simulated: bool, host: dict[str, object]
) -> messages.Enrolled:
    """Trade an enrolment token for a node id bound to this key. Safe to repeat. Raises PortalError."""
    body = messages.enrol_body(public_key=identity.public_key, name=name, is_simulated=is_simulated, host=host)
    return messages.read_enrolled(await client.post("/agent/v1/enrol", body, bearer=token))


class SessionKeeper:
    """Holds the current session; `renew_for_ever` keeps it alive."""

    def __init__(
        self, client: PortalClient, identity: Identity, *, node: str, superseded_wait_s: float = SUPERSEDED_WAIT_S
    ) -> None:
        self._client = client
        self._identity = identity
        self._node = node
        self._superseded_wait_s = superseded_wait_s
        self._instance = secrets.token_hex(16)
        self._expires_at = 0.0
        self._lifetime_s = 0.0
        self._refused_until = 0.0
        self._lock = asyncio.Lock()
        self.current: Session | None = None

    @property
    def is_due(self) -> bool:
        """Whether the session should be opened or renewed now."""
        left = self._expires_at - asyncio.get_running_loop().time()
        return self.current is None or left <= self._lifetime_s * _RENEW_WHEN_LEFT

    @property
    def is_refused(self) -> bool:
        """Whether this node should stay away for a while, because another one holds its identity."""
        return asyncio.get_running_loop().time() < self._refused_until

    def drop(self) -> None:
        """Forget the session: the next call opens a new generation."""
        self.current = None

    def superseded(self) -> None:
        """Stay away for a while: coming back at once would look like a clone fighting for its place."""
        self.current = None
        self._refused_until = asyncio.get_running_loop().time() + self._superseded_wait_s
        log.error("session.superseded", extra={"code": "session_superseded", "fix": fix_of("session_superseded")})

    async def ensure(self) -> Session:
        """Return a session that is good for a while, opening or renewing it. Raises PortalError."""
        async with self._lock:
            if self.current is None:
                return await self._request(bearer=None)
            if not self.is_due:
                return self.current
            try:
                return await self._request(bearer=self.current.token)
            except PortalError as error:
                if error.code not in _OPEN_ANEW:
                    raise
                return await self._request(bearer=None)

    async def _request(self, *, bearer: str | None) -> Session:
        challenge = messages.read_challenge(
            await self._client.post("/agent/v1/session/challenge", {"node": self._node})
        )
        self._warn_of_skew(challenge.server_time)
        text = messages.session_text(nonce=challenge.nonce, node=self._node, public_url=self._client.server)
        body = messages.session_body(
            node=self._node,
            nonce=challenge.nonce,
            public_url=self._client.server,
            instance=self._instance,
            signature=self._identity.sign(text),
        )
        asked_at = asyncio.get_running_loop().time()
        session = messages.read_session(await self._client.post("/agent/v1/session", body, bearer=bearer))
        self._expires_at, self._lifetime_s = asked_at + session.expires_in_s, float(session.expires_in_s)
        self.current = session
        log.info("session.renewed" if bearer else "session.opened", extra={"generation": session.generation})
        return session

    def _warn_of_skew(self, server_time: datetime | None) -> None:
        if server_time is None:
            return
        skew_s = (datetime.now(UTC) - server_time).total_seconds()
        if abs(skew_s) > _SKEW_WORTH_A_WORD_S:
            log.warning("clock.skew", extra={"skew_s": round(skew_s)})
