"""The agent reads a portal of the minor release before and of the next one, and says all that the former needs."""

import base64
import json
from typing import Any

import pytest
from poolhouse_agent.protocol import frames, messages, rounds

from tests.contract.agent_protocol.goldens import FOLDER, PREVIOUS, from_the_future, golden, holds, names, released

_BY_KIND = {
    "enrol": messages.read_enrolled,
    "challenge": messages.read_challenge,
    "session": messages.read_session,
    "heartbeat": messages.read_heartbeat,
    "checks_report": rounds.read_report,
}


def _is_answered(exchange: Any) -> bool:
    return isinstance(exchange, dict) and exchange.get("response", {}).get("status", 500) < 300


READERS = {name: reader for kind, reader in _BY_KIND.items() for name in names(kind) if _is_answered(golden(name))}


BEFORE = [(release, name) for release in PREVIOUS for name in READERS if released(name, release)]


@pytest.mark.parametrize("name", READERS)
def test_an_answer_with_unknown_fields_reads_the_same(name: str) -> None:
    body = golden(name)["response"]["body"]

    assert READERS[name](from_the_future(body)) == READERS[name](body)


@pytest.mark.parametrize(("release", "name"), BEFORE)
def test_an_answer_of_the_release_before_is_read(release: str, name: str) -> None:
    exchange = released(name, release)

    READERS[name](exchange["response"]["body"])


@pytest.mark.parametrize(("release", "name"), BEFORE)
def test_what_is_said_today_has_all_that_the_release_before_said(release: str, name: str) -> None:
    exchange = released(name, release)

    assert holds(golden(name)["request"]["body"], exchange["request"]["body"])


def payload(release: str, name: str) -> bytes:
    folder = FOLDER.parent / "released" / release
    rows: list[dict[str, Any]] = json.loads((folder / "tunnel_frames.json").read_text(encoding="utf-8"))
    return next(base64.b64decode(row["payload"]) for row in rows if row["name"] == name)


@pytest.mark.parametrize("release", PREVIOUS)
def test_a_request_of_the_gateway_before_and_of_the_next_is_read(release: str) -> None:
    line, _, body = payload(release, "REQUEST").partition(b"\n")
    future = json.dumps(from_the_future(json.loads(line))).encode() + b"\n" + body

    assert frames.read_request(future) == frames.read_request(line + b"\n" + body)
