"""Where a request came from: what is forwarded counts only as far as trusted proxies vouch for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final, TypeVar

Address = IPv4Address | IPv6Address
K = TypeVar("K")
V = TypeVar("V")

_KEPT: Final = 10_000
_FORWARDED_FOR: Final = b"x-forwarded-for"
_MAX_HOPS: Final = 32
_V4_BITS: Final = 24
_V6_BITS: Final = 48
_COUNTRY_LETTERS: Final = 2
_NO_COUNTRY: Final = "XX"  # what proxies write where they do not know


@dataclass(frozen=True, slots=True)
class Caller:
    """The client's address, the network it lies in, and its country where a trusted proxy tells it."""

    address: Address | None
    network: str
    country: str


NOWHERE: Final = Caller(address=None, network="", country="")


class AddressBook:
    """Finds callers and remembers them, so that a connection's next request costs one look-up."""

    def __init__(self, *, trusted: Iterable[str], country_header: str = "") -> None:
        self._trusted = [ip_network(text, strict=False) for text in trusted]
        self._country_header = country_header.lower().encode()
        self._direct: dict[str, Caller] = {}
        self._forwarded: dict[tuple[str, bytes, bytes], Caller] = {}
        self._proxies: dict[str, bool] = {}

    def caller(self, scope: dict[str, Any]) -> Caller:
        """Return who calls. Where nobody trustworthy tells an address, there is none."""
        client = scope.get("client")
        peer: str = client[0] if client else ""
        known = self._direct.get(peer)
        if known is not None:
            return known
        if not self._is_proxy(peer):
            return _keep(self._direct, peer, _described(_address(peer), ""))
        chain, country = self._told(scope["headers"])
        seen = self._forwarded.get((peer, chain, country))
        if seen is not None:
            return seen
        address = self._nearest(peer, chain)
        return _keep(self._forwarded, (peer, chain, country), _described(address, _country(country)))

    def _is_proxy(self, peer: str) -> bool:
        known = self._proxies.get(peer)
        if known is not None:
            return known
        address = _address(peer)
        return _keep(self._proxies, peer, address is not None and self._is_trusted(address))

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._trusted)

    def _told(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Return the whole chain, of however many header lines it is made, and the country."""
        chains: list[bytes] = []
        country = b""
        for name, value in headers:
            if name == _FORWARDED_FOR:
                chains.append(value)
            elif name == self._country_header:
                country = value
        return b",".join(chains), country

    def _nearest(self, peer: str, chain: bytes) -> Address | None:
        """Return the right-most hop that is no proxy of ours. A hop that cannot be read is nobody's address."""
        hops = [hop.strip() for hop in chain.decode("latin-1").split(",") if hop.strip()]
        address = _address(peer)
        for hop in reversed(hops[-_MAX_HOPS:]):
            address = _address(hop)
            if address is None or not self._is_trusted(address):
                return address
        return address


def _keep(kept: dict[K, V], key: K, value: V) -> V:
    """Remember a value; a full memory is emptied, which costs time alone."""
    if len(kept) >= _KEPT:
        kept.clear()
    kept[key] = value
    return value


def _address(text: str) -> Address | None:
    """Read an address as proxies write them: bare, in brackets, with a port. IPv4 written as IPv6 becomes IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _described(address: Address | None, country: str) -> Caller:
    if address is None:
        return Caller(address=None, network="", country=country)
    bits = _V4_BITS if address.version == 4 else _V6_BITS  # noqa: PLR2004  versions of IP
    return Caller(address=address, network=str(ip_network((address, bits), strict=False)), country=country)


def _country(told: bytes) -> str:
    text = told.decode("latin-1").strip().upper()
    is_code = len(text) == _COUNTRY_LETTERS and text.isascii() and text.isalpha() and text != _NO_COUNTRY
    return text if is_code else ""
