"""Between hosts a gateway's tunnels are lent behind TLS: both sides show a certificate, and both know the secret."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.gateway.tunnel import frames, peer_tls, peer_wire
from portal.gateway.tunnel.connection import NodeTunnel
from portal.gateway.tunnel.peer_client import PeerLinks
from portal.gateway.tunnel.peer_server import PeerServer
from portal.gateway.tunnel.peer_tls import PeerTls
from portal.gateway.tunnel.streams import TunnelLost
from tests.fakes.authority import Authority
from tests.fakes.line import HandingLine

KEY = peer_wire.derive_key("the pool's secret")
REQUEST = frames.pack_request({"path": "/v1/chat/completions"}, b"{}")


class _Tunnels:
    """One tunnel, whose node answers each request with HEAD, its node id and END."""

    def __init__(self) -> None:
        self._tunnel = NodeTunnel(node_id=7, node_public_id="node_7", generation=1, line=HandingLine(self._answer))

    def local(self, node_id: int) -> NodeTunnel | None:
        return self._tunnel if node_id == 7 else None

    def _answer(self, message: bytes) -> None:
        kind, stream, _ = frames.unpack(message)
        if kind == frames.REQUEST:
            for sent, payload in ((frames.HEAD, b"{}"), (frames.DATA, b"node 7"), (frames.END, b"{}")):
                self._tunnel.mux.receive(sent, stream, payload)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def here(authority: Authority) -> PeerTls:
    return _terms(authority, "here", "127.0.0.1")


def _terms(authority: Authority, name: str, address: str, *, trusts: Authority | None = None) -> PeerTls:
    certificate, key = authority.issue(name, address)
    with socket.socket() as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    return PeerTls(address, port, certificate, key, (trusts or authority).certificate)


@asynccontextmanager
async def _listening(terms: PeerTls, folder: Path) -> AsyncIterator[str]:
    path = folder / "gateway-0.sock"
    server = PeerServer(path=str(path), key=KEY, tunnels=_Tunnels(), tls=terms)
    await server.start()
    try:
        yield terms.address(str(path))
    finally:
        await server.stop()


async def _ask(links: PeerLinks, address: str) -> bytes:
    """Return what the node says by the peer's tunnel. Raises TunnelLost."""
    try:
        stream = await links.open(address, 7, REQUEST, body_bytes=2)
        answer = [await stream.next(2) for _ in range(3)]
    finally:
        await links.stop()
    return answer[1][1]


async def test_a_node_is_reached_by_a_peer_of_another_host(authority: Authority, here: PeerTls, tmp_path: Path) -> None:
    there = _terms(authority, "there", "127.0.0.2")
    async with _listening(there, tmp_path) as address:
        assert address == f"tls://127.0.0.2:{there.port}{tmp_path}/gateway-0.sock"
        (tmp_path / "gateway-0.sock").unlink()  # by TLS or not at all

        assert await _ask(PeerLinks(key=KEY, tls=here), address) == b"node 7"


async def test_a_peer_of_the_same_host_comes_by_the_unix_socket(here: PeerTls, tmp_path: Path) -> None:
    async with _listening(here, tmp_path) as address:
        unreachable = address.replace(f":{here.port}", ":1")

        assert await _ask(PeerLinks(key=KEY, tls=here), unreachable) == b"node 7"


async def test_a_process_without_a_certificate_does_not_try(here: PeerTls, tmp_path: Path) -> None:
    async with _listening(here, tmp_path) as address:
        links = PeerLinks(key=KEY)

        assert not links.is_usable(address)
        assert links.is_usable("/run/gateway-0.sock")
        with pytest.raises(TunnelLost):
            await _ask(links, address)


Refused = Callable[[Authority, PeerTls, Path], Awaitable[PeerLinks]]


async def _of_another_authority(authority: Authority, here: PeerTls, tmp_path: Path) -> PeerLinks:
    stranger = Authority(tmp_path, "stranger")
    return PeerLinks(key=KEY, tls=_terms(stranger, "forged", "127.0.0.1", trusts=authority))


async def _who_does_not_know_the_secret(authority: Authority, here: PeerTls, tmp_path: Path) -> PeerLinks:
    return PeerLinks(key=peer_wire.derive_key("a guess"), tls=here)


async def _who_trusts_another_authority(authority: Authority, here: PeerTls, tmp_path: Path) -> PeerLinks:
    return PeerLinks(key=KEY, tls=replace(here, authority=Authority(tmp_path, "other").certificate))


@pytest.mark.parametrize(
    "caller", [_of_another_authority, _who_does_not_know_the_secret, _who_trusts_another_authority]
)
async def test_who_does_not_belong_is_refused(
    authority: Authority, here: PeerTls, tmp_path: Path, caller: Refused
) -> None:
    async with _listening(_terms(authority, "there", "127.0.0.2"), tmp_path) as address:
        links = await caller(authority, here, tmp_path)

        with pytest.raises(TunnelLost):
            await _ask(links, address)


async def test_a_certificate_of_another_host_is_not_believed(
    authority: Authority, here: PeerTls, tmp_path: Path
) -> None:
    there = _terms(authority, "there", "127.0.0.2")
    certificate, key = authority.issue("elsewhere", "127.0.0.3")
    impostor = replace(there, certificate=certificate, key=key)
    async with _listening(impostor, tmp_path) as address:
        with pytest.raises(TunnelLost):
            await _ask(PeerLinks(key=KEY, tls=here), address)


async def test_who_shows_no_certificate_gets_nothing(authority: Authority, tmp_path: Path) -> None:
    there = _terms(authority, "there", "127.0.0.2")
    async with _listening(there, tmp_path):
        reader, writer = await asyncio.open_connection("127.0.0.2", there.port)
        writer.write(b"\x00" * 64)
        await writer.drain()

        assert await reader.read() in {b"", b"\x15\x03\x03\x00\x02\x02\x46", b"\x15\x03\x01\x00\x02\x02\x46"}
        writer.close()


@pytest.mark.parametrize("listen", ["7443", "host:", "host:0", "host:99999", ":7443"])
def test_a_listening_address_that_is_none_stops_the_start(here: PeerTls, listen: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_PEER_LISTEN"):
        _from_settings(here, listen=listen)


@pytest.mark.parametrize(
    ("name", "setting"),
    [("certificate", "GATEWAY_PEER_CERT"), ("key", "GATEWAY_PEER_KEY"), ("authority", "GATEWAY_PEER_CA")],
)
def test_a_missing_file_stops_the_start_and_is_named(here: PeerTls, name: str, setting: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=setting):
        _from_settings(here, **{name: ""})
    with pytest.raises(ImproperlyConfigured, match=setting):
        _from_settings(here, **{name: "/nowhere.pem"})


def test_a_key_of_another_certificate_stops_the_start(authority: Authority, here: PeerTls) -> None:
    _, other = authority.issue("other", "127.0.0.9")

    with pytest.raises(ImproperlyConfigured, match="GATEWAY_PEER_KEY"):
        _from_settings(here, key=str(other))


def test_without_a_listening_address_there_is_no_tls(here: PeerTls) -> None:
    assert _from_settings(here, listen="") is None
    assert _from_settings(here, listen="[::1]:7443") == replace(here, host="::1", port=7443)


def _from_settings(terms: PeerTls, **values: str) -> PeerTls | None:
    given = {
        "listen": f"{terms.host}:{terms.port}",
        "certificate": str(terms.certificate),
        "key": str(terms.key),
        "authority": str(terms.authority),
    }
    return peer_tls.from_settings(**given | values)
