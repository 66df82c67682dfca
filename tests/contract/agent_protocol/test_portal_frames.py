"""The gateway's half of the golden tunnel frames: it writes and reads the bytes that the agent's half does."""

import base64
import json
from typing import Any

import pytest

from portal.gateway.tunnel import frames
from portal.gateway.tunnel.connection import NodeTunnel
from tests.contract.agent_protocol.goldens import FOLDER
from tests.fakes.line import HandingLine

FRAMES: list[dict[str, Any]] = json.loads((FOLDER / "tunnel_frames.json").read_text(encoding="utf-8"))


def _payload(name: str, stream: int) -> bytes:
    return next(base64.b64decode(row["payload"]) for row in FRAMES if (row["name"], row["stream"]) == (name, stream))


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: f"{frame['name']}-{frame['stream']}")
def test_tunnel_frames_have_the_golden_bytes(frame: dict[str, Any]) -> None:
    payload, message = base64.b64decode(frame["payload"]), base64.b64decode(frame["message"])
    kind = getattr(frames, frame["name"])

    assert kind == frame["type"]
    assert frames.pack(kind, frame["stream"], payload) == message
    assert frames.unpack(message) == (kind, frame["stream"], payload)


def test_a_request_has_the_golden_payload() -> None:
    head = {
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "acme/chat-8b",
        "attempt": "01939d2e-0000-7000-8000-000000000001/1",
        "nonce": "00ff",
    }

    assert frames.pack_request(head, b'{"messages":[]}') == _payload("REQUEST", 7)


def test_a_large_body_is_announced_and_goes_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PLAIN_BODY_BYTES", 5)
    monkeypatch.setattr(frames, "BODY_PIECE_BYTES", 5)
    head = {
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "acme/chat-8b",
        "attempt": "01939d2e-0000-7000-8000-000000000001/2",
        "nonce": "00fe",
    }
    body = b'{"messages":[]}'

    assert frames.pack_request(head, body) == _payload("REQUEST", 8)
    assert b"".join(frames.body_pieces(body)) == _payload("BODY", 8)


@pytest.mark.parametrize(
    ("said", "most"),
    [
        ({"max_body_bytes": 8_454_144}, 8_454_144),
        ({"max_body_bytes": 10**12}, frames.MAX_BODY_BYTES),
        ({"max_body_bytes": 5}, frames.PLAIN_BODY_BYTES),
        ({}, frames.PLAIN_BODY_BYTES),
    ],
)
def test_a_hello_says_how_large_a_body_may_be(said: dict[str, int], most: int) -> None:
    tunnel = _tunnel()
    hello = frames.parse_object(_payload("HELLO", 0))
    del hello["max_body_bytes"]

    tunnel.greet(hello | said)

    assert tunnel.max_body_bytes == most
    assert tunnel.ready_models == {"acme/chat-8b": 8}


@pytest.mark.parametrize("most", ["8", 1.5, True, None])
def test_a_size_that_is_no_number_breaks_the_protocol(most: object) -> None:
    hello = frames.parse_object(_payload("HELLO", 0)) | {"max_body_bytes": most}

    with pytest.raises(frames.ProtocolError):
        _tunnel().greet(hello)


def _tunnel() -> NodeTunnel:
    def send(message: bytes) -> None:
        raise AssertionError(f"nothing is sent here: {message!r}")

    return NodeTunnel(node_id=1, node_public_id="node_1", generation=1, line=HandingLine(send))
