"""The agent's HTTP client to the portal: no redirects, TLS checked, small answers, errors by code."""

import json
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from poolhouse_agent import VERSION, addresses
from poolhouse_agent.errors import PortalError
from poolhouse_agent.protocol.reading import plain

_MAX_ANSWER_BYTES = 1 << 20
_TIMEOUT = httpx.Timeout(15.0, connect=10.0)
_OK = range(200, 300)


class PortalClient:
    """Speaks JSON to one portal."""

    def __init__(self, server: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.server = addresses.portal_url(server)
        self._http = httpx.AsyncClient(
            base_url=self.server,
            timeout=_TIMEOUT,
            follow_redirects=False,
            trust_env=False,
            transport=transport,
            verify=ssl.create_default_context() if transport is None and self.server.startswith("https:") else False,
            limits=httpx.Limits(max_connections=4, max_keepalive_connections=2),
            headers={"user-agent": f"poolhouse-agent/{VERSION}", "accept": "application/json"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Mapping[str, Any], *, bearer: str | None = None) -> Any:
        """Post JSON and return the JSON answer. Raises PortalError with the portal's code."""
        headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
        try:
            async with self._http.stream("POST", path, json=body, headers=headers) as response:
                content = await _bounded(response)
        except httpx.TimeoutException:
            raise PortalError("portal_timeout", f"{self.server} did not answer in time") from None
        except httpx.HTTPError as error:
            raise PortalError("portal_unreachable", f"{self.server}: {str(error) or type(error).__name__}") from None
        return _read(response.status_code, content)


async def _bounded(response: httpx.Response) -> bytes:
    parts = bytearray()
    async for part in response.aiter_bytes():
        parts += part
        if len(parts) > _MAX_ANSWER_BYTES:
            raise PortalError("portal_error", f"an answer of more than {_MAX_ANSWER_BYTES} bytes")
    return bytes(parts)


def _read(status: int, content: bytes) -> Any:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if status in _OK and value is not None:
        return value
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), str):
        text, fix = plain(str(error.get("message", "")))[:500], plain(str(error.get("fix") or ""))[:500]
        raise PortalError(plain(error["code"])[:64], text, status=status, fix=fix)
    raise PortalError("portal_error", f"status {status} without an error of the protocol", status=status)
