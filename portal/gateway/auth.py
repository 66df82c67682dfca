"""Whose request this is: the key from its headers, looked up by its SHA-256."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from portal.gateway import policy
from portal.gateway.addresses import AddressBook
from portal.gateway.contracts import KeyEntry, Snapshot
from portal.gateway.errors import AUTHENTICATION, PERMISSION, ApiError
from portal.gateway.exchange import Exchange
from portal.gateway.sightings import SightingBook

_MAX_KEY: Final = 256
_KEY_IN_QUERY: Final = re.compile(rb"(?:^|&)(?:api[_-]?key|key|token|access_token)=|sk-pool-", re.IGNORECASE)
_STOPS: Final = {
    "dispute": "one of its payments is disputed; its owners see which on the Credit page",
    "fraud_warning": "a bank has warned of one of its payments; the pool's operator is looking at it",
    "cards": "it paid with more cards than one customer should; ask the pool's operator",
    "known_card": "it paid with a card that was disputed before; ask the pool's operator",
    "operator": "the pool's operator has stopped it; ask there",
}
_HINT: Final = "Send it as `Authorization: Bearer sk-pool-…` or `x-api-key: sk-pool-…`."


@dataclass(frozen=True, slots=True)
class Door:
    """The one way in: whose key it is, whether it may be used from there; and where that is, for the owner to know."""

    addresses: AddressBook
    sightings: SightingBook

    def admit(self, exchange: Exchange, snapshot: Snapshot, *, now: float) -> KeyEntry:
        """Return the calling key. Raises ApiError 401, 403. `now` is Unix seconds."""
        key = authenticate(exchange, snapshot, now=now)
        caller = self.addresses.caller(exchange.scope)
        policy.require_address(key, caller.address)
        self.sightings.note(key, caller, now=now)
        return key


def authenticate(exchange: Exchange, snapshot: Snapshot, *, now: float) -> KeyEntry:
    """Return the calling key. Raises ApiError 401, or 403 where its organization is suspended or may not spend.

    `now` is Unix seconds.
    """
    text = _key_text(exchange)
    entry = snapshot.keys.get(hashlib.sha256(text).digest())
    if entry is None:
        raise _unauthorized("invalid_api_key", f"This API key is not known here. {_HINT}")
    if entry.is_revoked:
        raise _unauthorized("revoked_api_key", "This API key has been revoked; create another one.")
    if entry.expires_at is not None and entry.expires_at <= now:
        raise _over(entry)
    if not entry.is_organization_active:
        message = "The organization of this key is suspended; ask the pool's operator."
        raise ApiError(403, PERMISSION, "organization_suspended", message)
    if entry.stopped_for:
        raise ApiError(403, PERMISSION, "organization_suspended", _stopped(entry.stopped_for))
    return entry


def _stopped(why: str) -> str:
    return f"This organization may not spend for now: {_STOPS.get(why, _STOPS['operator'])}. Its credit is kept."


def _over(entry: KeyEntry) -> ApiError:
    if entry.is_replaced:
        message = f"The key {entry.public_id} has a new secret, and the time of this old one is over; use the new one."
        return _unauthorized("revoked_api_key", message)
    return _unauthorized("expired_api_key", "This API key has expired; create another one.")


def _key_text(exchange: Exchange) -> bytes:
    authorization = exchange.headers.get(b"authorization")
    if authorization:
        scheme, _, text = authorization.partition(b" ")
        text = text.strip()
        if scheme.lower() != b"bearer" or not text:
            raise _unauthorized("invalid_api_key", f"The authorization header carries no bearer key. {_HINT}")
    else:
        text = exchange.headers.get(b"x-api-key", b"").strip()
    if text:
        return text[:_MAX_KEY]
    if _KEY_IN_QUERY.search(exchange.query):
        message = f"The key is in the URL, where logs keep it: replace that key. {_HINT}"
        raise _unauthorized("invalid_api_key", message)
    raise _unauthorized("invalid_api_key", f"The request carries no API key. {_HINT}")


def _unauthorized(code: str, message: str) -> ApiError:
    return ApiError(401, AUTHENTICATION, code, message)
