"""TLS between the gateway processes of several hosts: both sides show a certificate of the pool's own authority."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

SCHEME: Final = "tls"


@dataclass(frozen=True, slots=True)
class PeerTls:
    """Where this process listens for peers of other hosts, and what proves who is who."""

    host: str
    port: int
    certificate: Path
    key: Path
    authority: Path

    def address(self, socket_path: str) -> str:
        """Return where peers reach this process: other hosts by TLS, those of this host by its Unix socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}://{host}:{self.port}{socket_path}"

    def for_server(self) -> ssl.SSLContext:
        """Return the context of the listening side, which asks for a certificate. Raises OSError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return self._loaded(context)

    def for_client(self) -> ssl.SSLContext:
        """Return the context of the calling side, which checks the host's name as well. Raises OSError."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """A peer's address, taken apart: a Unix path, and where it has one, a host and port behind TLS."""

    path: str
    host: str | None = None
    port: int = 0


def parse(address: str) -> PeerAddress:
    """Return the parts of an address that another process has claimed a tunnel with."""
    if not address.startswith(f"{SCHEME}://"):
        return PeerAddress(address)
    parts = urlsplit(address)
    return PeerAddress(parts.path, parts.hostname, parts.port or 0)


def from_settings(*, listen: str, certificate: str, key: str, authority: str) -> PeerTls | None:
    """Return the terms, None where peers of other hosts are not wanted. Raises ImproperlyConfigured."""
    named = {"GATEWAY_PEER_CERT": certificate, "GATEWAY_PEER_KEY": key, "GATEWAY_PEER_CA": authority}
    if not listen:
        return None
    parts = urlsplit(f"//{listen}")
    if not parts.hostname or not _port(listen):
        raise ImproperlyConfigured("GATEWAY_PEER_LISTEN is host:port, where other hosts reach this process")
    for name, value in named.items():
        if not value or not Path(value).is_file():
            raise ImproperlyConfigured(f"{name} names a PEM file; GATEWAY_PEER_LISTEN needs it")
    terms = PeerTls(parts.hostname, _port(listen), Path(certificate), Path(key), Path(authority))
    try:
        terms.for_server()
    except OSError as error:
        raise ImproperlyConfigured(f"{', '.join(named)} do not belong together: {error}") from error
    return terms


def _port(listen: str) -> int:
    try:
        return urlsplit(f"//{listen}").port or 0
    except ValueError as error:
        raise ImproperlyConfigured("GATEWAY_PEER_LISTEN ends in a port from 1 to 65535") from error
