"""Verifies and reads webhooks: the signature over the raw bytes first, then the few fields that are used."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from stripe import SignatureVerificationError, WebhookSignature

from portal.integrations.stripe_errors import SignatureInvalid
from portal.integrations.stripe_types import Event

TOLERANCE_S = 300


def verify(*, body: bytes, signature: str, secret: str) -> Event:
    """Check the signature and return what the event says. Raises SignatureInvalid."""
    if not secret:
        raise SignatureInvalid("no secret is configured for this endpoint", fix="set the endpoint's secret")
    try:
        text = body.decode("utf-8")
        WebhookSignature.verify_header(text, signature, secret, TOLERANCE_S)  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
        return read(json.loads(text))
    except SignatureVerificationError as error:
        raise SignatureInvalid("the signature does not match") from error
    except (UnicodeDecodeError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SignatureInvalid("the body is not an event") from error


def read(event: Mapping[str, object]) -> Event:
    """Return the fields that matter of a v1 snapshot event or a v2 thin event. Raises KeyError and TypeError."""
    if event["object"] == "v2.core.event":
        return _thin(event)
    if event["object"] != "event":
        raise KeyError("object")
    subject = _mapping(_mapping(event["data"])["object"])
    created = event["created"]
    if not isinstance(created, int):
        raise TypeError("created is not a number")
    return Event(
        id=str(event["id"]),
        type=str(event["type"]),
        object_id=str(subject.get("id") or ""),
        account=str(event.get("account") or ""),
        is_live=event["livemode"] is True,
        created_at=datetime.fromtimestamp(created, UTC),
    )


def _thin(event: Mapping[str, object]) -> Event:
    related = event.get("related_object")
    return Event(
        id=str(event["id"]),
        type=str(event["type"]),
        object_id=str(_mapping(related)["id"]) if related else "",
        account=str(event.get("context") or ""),
        is_live=event["livemode"] is True,
        created_at=datetime.fromisoformat(str(event["created"])),
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError("not an object")
    return value
