"""Believes `X-Forwarded-Proto` from trusted proxies only, so that `request.is_secure()` is right everywhere."""

from collections.abc import Callable, Iterable
from ipaddress import ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase


class TrustedProxyScheme:
    """Middleware, first in the list: a request that a trusted proxy received over TLS counts as secure."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Set the scheme and pass the request on."""
        forwarded = request.headers.get("x-forwarded-proto", "").split(",")[-1].strip().lower()
        if forwarded == "https" and is_trusted(request.META.get("REMOTE_ADDR", ""), settings.TRUSTED_PROXIES):
            request.META["wsgi.url_scheme"] = "https"
            request._get_scheme = lambda: "https"  # type: ignore[attr-defined]  # noqa: SLF001  Django's own seam
        return self.get_response(request)


def is_trusted(peer: str, trusted: Iterable[str]) -> bool:
    """Tell whether the peer is one of the trusted proxies (addresses or networks)."""
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    return any(address in ip_network(entry, strict=False) for entry in trusted)
