"""What every answer carries, and how a connection that does not play along is answered."""

import asyncio
from typing import Any

import orjson
import pytest

from portal.gateway import exchange
from portal.gateway.errors import ApiError, invalid
from portal.gateway.exchange import LINE, CustomerGone, Departure, Exchange


class _Connection:
    """What the server lends a request of its connection, full until it is emptied."""

    def __init__(self, departure: Departure) -> None:
        self.departure = departure
        self.is_full = False
        self.pieces: list[bytes] = []

    def put(self, piece: bytes) -> bool:
        if not self.is_full:
            self.pieces.append(piece)
        return not self.is_full


class _Line:
    """A connection whose customer sends nothing more."""

    def __init__(self, departure: Departure | None = None) -> None:
        self.written: list[dict[str, Any]] = []
        scope: dict[str, Any] = {"method": "POST", "path": "/v1/completions", "query_string": b"", "headers": []}
        if departure is not None:
            self.connection = _Connection(departure)
            scope["extensions"] = {LINE: self.connection}
        self.exchange = Exchange(scope, self._receive, self._send)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.written[0]["headers"])

    async def _receive(self) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: dict[str, Any]) -> None:
        self.written.append(message)


async def test_a_body_that_does_not_come_is_answered_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BODY_TIMEOUT_S", 0.02)
    line = _Line()

    with pytest.raises(ApiError) as late:
        await line.exchange.read_body()
    await line.exchange.refuse(late.value)

    assert line.written[0]["status"] == 408
    assert line.headers[b"x-request-id"] == str(line.exchange.request_id).encode()
    assert int(line.headers[b"openai-processing-ms"]) >= 20
    assert orjson.loads(line.written[1]["body"])["error"]["code"] == "invalid_value"


async def test_what_was_promised_is_on_errors_too_and_the_last_promise_counts() -> None:
    line = _Line()
    line.exchange.speaks(line.exchange.wording, ((b"request-id", b"r"),))
    line.exchange.promise(lambda: ((b"x-ratelimit-remaining-requests", b"9"),))
    line.exchange.promise(lambda: ((b"x-ratelimit-remaining-requests", b"8"),))

    await line.exchange.refuse(invalid("No.", param="prompt"))

    names = [name for name, _ in line.written[0]["headers"]]
    assert len(names) == len(set(names))
    assert (line.headers[b"request-id"], line.headers[b"x-ratelimit-remaining-requests"]) == (b"r", b"8")


async def test_an_answer_that_has_begun_ends_with_the_error_alone() -> None:
    line = _Line()
    await line.exchange.start(200, [(b"content-type", b"text/event-stream")])

    await line.exchange.end_in_band(invalid("No."))

    assert line.written[1]["body"].startswith(b'data: {"error":{"message":"No."')
    assert line.written[1]["more_body"] is False


class _Reader:
    def __init__(self) -> None:
        self.interruptions = 0

    def interrupt(self) -> None:
        self.interruptions += 1


async def test_a_customer_who_leaves_interrupts_his_reader_and_gets_nothing_more() -> None:
    departure, reader = Departure(), _Reader()
    line = _Line(departure)
    line.exchange.watch()
    line.exchange.interrupts(reader)

    departure.come()

    assert reader.interruptions == 1
    with pytest.raises(CustomerGone):
        await line.exchange.write(b"late")
    assert line.written == []


async def test_pieces_go_the_short_way_while_the_connection_takes_them() -> None:
    line = _Line(Departure())
    line.exchange.watch()

    await line.exchange.write(b"one")
    line.connection.is_full = True
    await line.exchange.write(b"two")
    line.connection.is_full = False
    await line.exchange.write(b"end", has_more=False)

    assert line.connection.pieces == [b"one"]
    assert [(m["body"], m["more_body"]) for m in line.written] == [(b"two", True), (b"end", False)]


async def test_one_who_left_before_the_watch_began_is_noticed_too() -> None:
    departure, reader = Departure(), _Reader()
    line = _Line(departure)
    departure.come()

    line.exchange.watch()
    line.exchange.interrupts(reader)

    assert reader.interruptions == 1


async def test_a_request_that_ended_hears_nothing_of_its_connection() -> None:
    departure, reader = Departure(), _Reader()
    line = _Line(departure)
    line.exchange.watch()
    line.exchange.interrupts(reader)

    line.exchange.stop_watching()
    departure.come()

    assert reader.interruptions == 0
