"""The HTTP clients of the agent's data path: no redirects, no cookies, no proxies from the environment."""

import aiohttp
from aiohttp.client_middlewares import ClientHandlerType

_ENGINE_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=600.0)
_TUNNEL_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0)


async def _refuse_redirects(request: aiohttp.ClientRequest, handler: ClientHandlerType) -> aiohttp.ClientResponse:
    response = await handler(request)
    if 300 <= response.status < 400:  # noqa: PLR2004  the class of redirects
        status = response.status
        response.close()
        raise aiohttp.ClientPayloadError(f"a redirect ({status}), which is never followed")
    return response


def engine_session() -> aiohttp.ClientSession:
    """A session for engines on this machine."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=_ENGINE_TIMEOUT,
        headers={"accept-encoding": "identity"},
        middlewares=(_refuse_redirects,),
    )


def tunnel_session(*, limit: int = 100) -> aiohttp.ClientSession:
    """A session for tunnels, at most `limit` at once (0: as many as wanted)."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=_TUNNEL_TIMEOUT,
        middlewares=(_refuse_redirects,),
    )
