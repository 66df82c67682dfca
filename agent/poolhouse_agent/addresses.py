"""Which addresses the agent speaks to: TLS everywhere but on loopback."""

import ipaddress
from urllib.parse import urlsplit

from poolhouse_agent.errors import ConfigError

TUNNEL_PATH = "/agent/v1/tunnel"


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_safe(url: str, *, schemes: tuple[str, str]) -> str:
    """Return `url` if it is of the secure scheme, or of the plain one on loopback. Raises ConfigError."""
    plain, secure = schemes
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("server_url_invalid", f"{url!r} is not an address") from None
    if parts.scheme not in schemes or not host or parts.username or parts.password or parts.fragment:
        raise ConfigError("server_url_invalid", f"{url!r} is not a {secure} address")
    if parts.scheme == plain and not is_loopback(host):
        raise ConfigError("https_required", f"{url!r}: {plain} is for loopback only")
    return url


def portal_url(url: str) -> str:
    """Return the portal's address without a trailing slash. Raises ConfigError."""
    return require_safe(url.rstrip("/"), schemes=("http", "https"))


def tunnel_url(url: str, *, server: str) -> str:
    """Return the tunnel's address as the portal at `server` named it. Raises ConfigError."""
    parts = urlsplit(require_safe(url, schemes=("ws", "wss")))
    if parts.path != TUNNEL_PATH or parts.query:
        raise ConfigError("server_url_invalid", f"{url!r} does not end in {TUNNEL_PATH}")
    if is_loopback(parts.hostname or "") and not is_loopback(urlsplit(server).hostname or ""):
        raise ConfigError("server_url_invalid", f"{url!r}: a portal elsewhere does not name addresses of this machine")
    return url
