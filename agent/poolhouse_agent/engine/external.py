"""An engine that already runs: only its owner's configuration says where."""

import asyncio
import ipaddress
from urllib.parse import urlsplit

import aiohttp

from poolhouse_agent import addresses
from poolhouse_agent.config import Config, ExternalServer
from poolhouse_agent.engine import readiness
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired


class ExternalEngine:
    """A server that the owner named in [external]."""

    def __init__(self, desired: Desired, *, config: Config, http: aiohttp.ClientSession) -> None:
        self._desired = desired
        self._config = config
        self._http = http

    async def start(self) -> Target:
        """Find the server and the name it serves the model under. Raises EngineError."""
        server = self._config.external.get(self._desired.model)
        if server is None:
            raise EngineError("external_engine_unset", f"[external] has no entry for {self._desired.model}")
        require_allowed(server.url, allowed=self._config.allowed_hosts)
        target = Target(
            base_url=server.url,
            served_name=server.served_name or self._desired.model,
            max_concurrency=self._desired.max_concurrency,
            headers=key_header(server),
        )
        if not server.served_name:
            target.served_name = await self._only_name(target)
        return target

    async def _only_name(self, target: Target) -> str:
        """The model's own id where the server lists it, else the one name it lists."""
        names = await readiness.listed_models(self._http, target)
        if target.served_name in names or len(names) != 1:
            return target.served_name
        return next(iter(names))

    async def wait_for_end(self) -> str:
        """Never: the server's life is not the agent's business; the watch notices when it is gone."""
        await asyncio.get_running_loop().create_future()
        return "engine_died"

    def explain(self) -> str:
        """Nothing is known of another's process."""
        return ""

    async def stop(self) -> None:
        """Nothing to end."""


def require_allowed(url: str, *, allowed: frozenset[str]) -> None:
    """Allow loopback, and hosts that the owner lists, but never link-local ones. Raises EngineError."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise EngineError("config_invalid", f"{url!r} is not an address") from None
    if parts.scheme not in {"http", "https"} or not host or parts.username or parts.query or parts.fragment:
        raise EngineError("config_invalid", f"{url!r} is not a plain http address")
    if _is_link_local(host) or not (addresses.is_loopback(host) or host in allowed):
        raise EngineError("config_invalid", f"{host} is neither loopback nor in allowed_hosts")


def _is_link_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_link_local
    except ValueError:
        return False


def key_header(server: ExternalServer) -> dict[str, str]:
    """The header that opens the server. Raises EngineError where the key cannot be read."""
    if server.api_key_file is None:
        return {}
    try:
        return {"authorization": f"Bearer {server.api_key_file.read_text(encoding='ascii').strip()}"}
    except (OSError, ValueError) as error:
        raise EngineError("config_unreadable", f"{server.api_key_file}: {error}") from None
