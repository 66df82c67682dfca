"""Where keys are used: noted in memory, written in the background in batches, bounded, never in a request's way."""

import asyncio
from ipaddress import ip_address
from typing import Any

from django.db import DatabaseError

from portal.gateway import sightings
from portal.gateway.addresses import NOWHERE, Caller
from portal.gateway.sightings import AGAIN_AFTER_S, SightingBook
from tests.factories.gateway import key_entry

HOME = Caller(ip_address("203.0.113.7"), "203.0.113.0/24", "DE")
AWAY = Caller(ip_address("198.51.100.7"), "198.51.100.0/24", "")


class Threads:
    """Stands for the database's threads at the book's edge; keeps what was to be written."""

    def __init__(self) -> None:
        self.written: list[list[tuple[int, str, str, bool]]] = []
        self.is_down = False

    async def run(self, function: Any, *, seen: list[Any]) -> None:
        if self.is_down:
            raise DatabaseError("away")
        self.written.append([(row.key_id, row.network, row.country, row.is_old_secret) for row in seen])


def flushed(note: Any, threads: Threads | None = None) -> list[list[tuple[int, str, str, bool]]]:
    """Return what was written after `note(book)` and an orderly stop."""
    kept = threads or Threads()
    book = SightingBook(threads=kept)  # type: ignore[arg-type]

    async def scenario() -> None:
        note(book)
        await book.stop()

    asyncio.run(scenario())
    return kept.written


def test_a_place_is_written_once_in_ten_minutes():
    def uses(book):
        for second in (0, 1, AGAIN_AFTER_S - 1):
            book.note(key_entry(), HOME, now=second)
        book.note(key_entry(), AWAY, now=5)

    assert flushed(uses) == [[(1, "203.0.113.0/24", "DE", False), (1, "198.51.100.0/24", "", False)]]


def test_a_place_is_written_again_after_ten_minutes():
    threads = Threads()
    book = SightingBook(threads=threads)  # type: ignore[arg-type]

    async def scenario() -> None:
        book.note(key_entry(), HOME, now=0)
        await book.stop()
        book.note(key_entry(), HOME, now=AGAIN_AFTER_S)
        await book.stop()

    asyncio.run(scenario())

    assert [len(batch) for batch in threads.written] == [1, 1]


def test_the_old_secret_is_another_use():
    def uses(book):
        book.note(key_entry(), HOME, now=0)
        book.note(key_entry(is_replaced=True), HOME, now=0)

    assert flushed(uses) == [[(1, "203.0.113.0/24", "DE", False), (1, "203.0.113.0/24", "DE", True)]]


def test_a_caller_without_an_address_is_from_nowhere():
    assert flushed(lambda book: book.note(key_entry(), NOWHERE, now=0)) == []


def test_what_could_not_be_written_waits_for_the_next_time():
    threads = Threads()
    book = SightingBook(threads=threads)  # type: ignore[arg-type]

    async def scenario() -> None:
        book.note(key_entry(), HOME, now=0)
        threads.is_down = True
        await book.stop()
        threads.is_down = False
        await book.stop()

    asyncio.run(scenario())

    assert threads.written == [[(1, "203.0.113.0/24", "DE", False)]]


def test_many_places_go_in_bounded_batches_and_what_is_too_much_is_dropped(monkeypatch):
    monkeypatch.setattr(sightings, "_WAITING", 700)
    threads = Threads()
    book = SightingBook(threads=threads)  # type: ignore[arg-type]

    async def scenario() -> None:
        for number in range(800):
            book.note(key_entry(id=number), HOME, now=0)
        await book.stop()

    asyncio.run(scenario())

    assert [len(batch) for batch in threads.written] == [500, 200]
    assert book.dropped == 100
