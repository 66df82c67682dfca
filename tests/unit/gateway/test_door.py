"""Who is let in: the block comes before everything else, and what the old secret of a rotated key is told."""

import hashlib
from dataclasses import replace
from ipaddress import ip_network

import pytest

from portal.gateway.addresses import AddressBook
from portal.gateway.auth import Door
from portal.gateway.contracts import KeyPolicy
from portal.gateway.errors import ApiError
from portal.gateway.exchange import Exchange
from portal.gateway.sightings import SightingBook
from tests.factories.gateway import KEY_TEXT, key_entry, snapshot

NOW = 1_000.0


def exchange(text: str = KEY_TEXT) -> Exchange:
    scope = {
        "method": "GET",
        "path": "/v1/models",
        "query_string": b"",
        "client": ("203.0.113.7", 1),
        "headers": [(b"authorization", b"Bearer " + text.encode())],
    }

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    return Exchange(scope, nothing, nothing)  # type: ignore[arg-type]


class Noted(SightingBook):
    """A book that keeps what it was told."""

    def __init__(self) -> None:
        self.places: list[tuple[str, str]] = []

    def note(self, key, caller, *, now: float) -> None:
        self.places.append((key.public_id, caller.network))


def admit(entry, book=None, text=KEY_TEXT):
    door = Door(addresses=AddressBook(trusted=[]), sightings=book or Noted())
    known = replace(snapshot(), keys={hashlib.sha256(KEY_TEXT.encode()).digest(): entry})
    return door.admit(exchange(text), known, now=NOW)


def code(entry) -> str:
    book = Noted()
    with pytest.raises(ApiError) as refusal:
        admit(entry, book)
    assert book.places == []
    return refusal.value.code


def test_a_live_key_is_let_in_and_its_place_noted():
    book, entry = Noted(), key_entry()

    assert admit(entry, book) is entry
    assert book.places == [("testkey", "203.0.113.0/24")]


# litellm#35535
def test_a_block_is_told_before_anything_else_about_the_key():
    outside = KeyPolicy(networks=(ip_network("192.0.2.0/24"),))
    everything = {"policy": outside, "expires_at": NOW - 1, "is_organization_active": False}

    assert code(key_entry(is_revoked=True, **everything)) == "revoked_api_key"
    assert code(key_entry(**everything)) == "expired_api_key"
    assert code(key_entry(**(everything | {"expires_at": None}))) == "organization_suspended"
    assert code(key_entry(policy=outside)) == "ip_not_allowed"


@pytest.mark.parametrize(("ends_at", "is_in"), [(NOW + 0.001, True), (NOW, False), (NOW - 5, False)])
def test_an_old_secret_works_until_its_grace_is_over(ends_at: float, is_in: bool):
    entry = key_entry(is_replaced=True, expires_at=ends_at)

    if is_in:
        assert admit(entry) is entry
    else:
        assert code(entry) == "revoked_api_key"


def test_an_old_secret_is_told_that_there_is_a_new_one():
    with pytest.raises(ApiError) as refusal:
        admit(key_entry(is_replaced=True, expires_at=NOW - 1))

    assert refusal.value.message == (
        "The key testkey has a new secret, and the time of this old one is over; use the new one."
    )


def test_a_key_that_is_not_known_is_noted_nowhere():
    book = Noted()

    with pytest.raises(ApiError) as refusal:
        admit(key_entry(), book, text="sk-pool-another")

    assert (refusal.value.code, book.places) == ("invalid_api_key", [])


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("dispute", "one of its payments is disputed"),
        ("fraud_warning", "a bank has warned of one of its payments"),
        ("a reason of tomorrow", "the pool's operator has stopped it"),
    ],
)
def test_who_may_not_spend_is_told_why(why: str, said: str):
    with pytest.raises(ApiError) as refusal:
        admit(key_entry(stopped_for=why))

    assert (refusal.value.status, refusal.value.code) == (403, "organization_suspended")
    assert said in refusal.value.message
