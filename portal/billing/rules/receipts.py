"""What a receipt says of an attempt, and how a node's claim compares with what the gateway saw."""

import zlib
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

import orjson

from portal.core.records import record

MAX_CLAIMS = 200
# A request's day is that of its first moment; its id was made within the same request.
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MS = 10**14
_UUID_TIME_SHIFT = 80


class Proof(StrEnum):
    """How the node's digest compares with the gateway's: a customer who leaves hears less than the node has sent."""

    EQUAL = "equal"
    PARTIAL = "partial"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


@record(frozen=True, slots=True)
class SignedClaim:
    """A node's claim of one attempt, with its signature."""

    claim: Mapping[str, Any]
    signature: str

    @property
    def attempt(self) -> str:
        """The attempt's name, `<request>/<number>`."""
        return str(self.claim["attempt"])

    @property
    def key(self) -> tuple[UUID, int]:
        """The request's id and the attempt's number."""
        request_id, _, number = self.attempt.partition("/")
        return UUID(request_id), int(number)


class Priced(Protocol):
    """The price version as far as a receipt tells it."""

    id: int
    version: int
    prompt_nano_per_mtok: int
    cached_nano_per_mtok: int
    completion_nano_per_mtok: int
    request_nano: int


def made_at(request_id: UUID) -> datetime:
    """Return when a request's id was made, as the id itself says (UUIDv7)."""
    # 48 bits of milliseconds reach beyond what a date can be; such an id was made up.
    return _EPOCH + timedelta(milliseconds=min(request_id.int >> _UUID_TIME_SHIFT, _MOST_MS))


def days_of(request_id: UUID) -> tuple[date, ...]:
    """Return the days whose partition may hold the request's records."""
    made = made_at(request_id)
    return (made - _DAY).date(), made.date(), (made + _DAY).date()


def compare(*, proof: str | None, claim: Mapping[str, Any], is_whole: bool) -> Proof:
    """Return how the claim stands to the gateway's proof (nonce, bytes, digest), where the gateway left one.

    `is_whole`: the gateway read the answer to its end.
    """
    if proof is None:
        return Proof.UNKNOWN
    nonce, answer_bytes, digest = proof.split(":")
    if nonce != claim["nonce"] or int(answer_bytes) > claim["answer_bytes"]:
        return Proof.DIFFERS
    if int(answer_bytes) < claim["answer_bytes"]:
        return Proof.DIFFERS if is_whole else Proof.PARTIAL
    return Proof.EQUAL if digest == claim["digest"] else Proof.DIFFERS


def price_terms(price: Priced) -> dict[str, int]:
    """Return the price version as a receipt carries it (nano)."""
    return {
        "id": price.id,
        "version": price.version,
        "prompt_nano_per_mtok": price.prompt_nano_per_mtok,
        "cached_nano_per_mtok": price.cached_nano_per_mtok,
        "completion_nano_per_mtok": price.completion_nano_per_mtok,
        "request_nano": price.request_nano,
    }


def packed(columns: Mapping[str, Any]) -> bytes:
    """Return a usage record's columns as the receipt's sealed part holds them."""
    return zlib.compress(orjson.dumps(columns, option=orjson.OPT_SORT_KEYS), 9)


def unpacked(plain: bytes) -> dict[str, Any]:
    """Read `packed` back."""
    columns: dict[str, Any] = orjson.loads(zlib.decompress(plain))
    return columns
