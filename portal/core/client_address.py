"""Where a request came from, believing `X-Forwarded-For` only as far as trusted proxies vouch for it."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network


def client_address(*, peer: str, forwarded_for: str, trusted: Iterable[str]) -> str | None:
    """Return the nearest address that is not a trusted proxy, or None where the peer has no IP address."""
    networks = [ip_network(entry, strict=False) for entry in trusted]
    hops = [hop.strip() for hop in forwarded_for.split(",") if hop.strip()]
    address = _valid(peer)
    while address is not None and hops and any(ip_address(address) in network for network in networks):
        nearer = _valid(hops.pop())
        if nearer is None:
            break
        address = nearer
    return address


def _valid(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None
