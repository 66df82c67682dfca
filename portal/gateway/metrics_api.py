"""GET /metrics: for whoever has the token, or asks from this machine where there is none."""

import hmac
from ipaddress import ip_address

from portal.gateway.errors import AUTHENTICATION, ApiError
from portal.gateway.exchange import Exchange
from portal.gateway.seeing import Seeing
from portal.gateway.threads import DatabaseThreads

_TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


async def serve(exchange: Exchange, seeing: Seeing, threads: DatabaseThreads, *, token: str) -> None:
    """Answer Prometheus' text of all processes of this host. Raises ApiError 401."""
    if not _may_read(exchange, token):
        message = "Send METRICS_TOKEN as `Authorization: Bearer …`, or, where none is set, ask from this machine."
        raise ApiError(401, AUTHENTICATION, "invalid_metrics_token", message)
    page = await threads.run(seeing.metrics.page)
    await exchange.start(200, [_TEXT, (b"content-length", b"%d" % len(page))])
    await exchange.write(page, has_more=False)


def _may_read(exchange: Exchange, token: str) -> bool:
    if token:
        given = exchange.headers.get(b"authorization", b"")
        return hmac.compare_digest(given, b"Bearer " + token.encode())
    client = exchange.scope.get("client")
    # Behind a proxy on this machine everybody would come from here.
    if client is None or b"x-forwarded-for" in exchange.headers:
        return False
    return ip_address(client[0]).is_loopback
