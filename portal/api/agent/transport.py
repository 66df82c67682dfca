"""How agents may reach the portal: over TLS, or from this machine itself; and what they bring to prove themselves."""

from ipaddress import ip_address

from django.conf import settings
from rest_framework.request import Request

from portal.core.client_address import client_address
from portal.core.errors import DomainError
from portal.core.trusted_proxy import is_trusted


class HttpsRequired(DomainError):
    """Tokens do not travel readable."""

    code = "https_required"


def address_of(request: Request) -> str | None:
    """Return the machine's address; a forwarded one counts only from TRUSTED_PROXIES."""
    return client_address(
        peer=request.META.get("REMOTE_ADDR", ""),
        forwarded_for=request.headers.get("x-forwarded-for", ""),
        trusted=settings.TRUSTED_PROXIES,
    )


def require_https(request: Request) -> None:
    """Raise HttpsRequired unless the request came over TLS or from this machine without a proxy of others."""
    if request.is_secure():
        return
    peer = request.META.get("REMOTE_ADDR", "")
    is_forwarded = "x-forwarded-for" in request.headers or "forwarded" in request.headers
    if is_forwarded and not is_trusted(peer, settings.TRUSTED_PROXIES):
        raise HttpsRequired("agents are served over HTTPS only")
    address = address_of(request)
    if address is None or not ip_address(address).is_loopback:
        raise HttpsRequired("agents are served over HTTPS only")


def bearer(request: Request) -> str:
    """Return the token of `Authorization: Bearer …`, or an empty text."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
