"""`python -m portal.gateway`: one gateway process, on a port it shares with its siblings (SO_REUSEPORT)."""

import os
import socket

from django.core.exceptions import ImproperlyConfigured

from portal.settings import env

_BACKLOG = 2048
_MESSAGE_BYTES = 1 << 20


def listening_socket(address: str) -> socket.socket:
    """Return a socket bound to `host:port` that siblings may bind as well. Raises ImproperlyConfigured.

    It does not listen yet: the kernel sends connections to it only once the process has started.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        raise ImproperlyConfigured(f"GATEWAY_BIND={address!r}: use host:port, e.g. 127.0.0.1:8001")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host.strip("[]"), int(port)))
    except OSError as error:
        raise ImproperlyConfigured(f"GATEWAY_BIND={address!r}: {error.strerror}") from error
    return listener


def main() -> None:
    """Serve until SIGTERM, then let running streams end for at most GATEWAY_DRAIN_S."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.gateway")
    from portal.gateway.server import server

    server().run(sockets=[listening_socket(env.text("GATEWAY_BIND", "127.0.0.1:8001"))])


if __name__ == "__main__":
    main()
