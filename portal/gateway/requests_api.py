"""GET /v1/requests/{id}: the explainable record of the caller's own request."""

from typing import Any, Final
from uuid import UUID

from portal.billing.rules import rating
from portal.billing.selectors.price_versions import price_version
from portal.core.money import decimal_text
from portal.gateway.errors import INVALID_REQUEST, ApiError
from portal.gateway.models_api import per_token
from portal.metering.models import UsageRecord
from portal.metering.selectors import usage

_PREFIX: Final = "chatcmpl-"
_SECONDS_UNTIL_SETTLED: Final = 2.0


def parse_id(text: str) -> UUID:
    """Return the request id from `chatcmpl-<uuid>` or a bare UUID. Raises ApiError request_not_found."""
    try:
        return UUID(text.removeprefix(_PREFIX))
    except ValueError as error:
        raise not_found(text) from error


def not_found(text: str) -> ApiError:
    """Return 404: unknown, another organization's, or not yet written down."""
    message = f"No request {text[:64]!r} of yours is recorded. A record appears a few seconds after its request ends."
    return ApiError(
        404, INVALID_REQUEST, "request_not_found", message, param="id", retry_after_s=_SECONDS_UNTIL_SETTLED
    )


def record(*, organization_id: int, request_id: UUID, currency: str) -> dict[str, Any] | None:
    """Return the record, or None. Blocking: called in a database thread."""
    rows = usage.by_request(organization_id=organization_id, request_id=request_id)
    if not rows:
        return None
    last = rows[-1]
    return {
        "id": f"{_PREFIX}{request_id}",
        "object": "request",
        "client_request_id": last.client_request_id or None,
        "endpoint": f"/v1/{last.endpoint}",
        "stream": last.is_stream,
        "opened_at": rows[0].opened_at.isoformat(),
        "closed_at": last.closed_at.isoformat(),
        "outcome": last.outcome,
        "attempts": [_attempt(row) for row in rows],
        "cost": decimal_text(sum(row.charge_nano for row in rows)),
        "currency": currency,
        "price": _price(last),
    }


def _attempt(row: UsageRecord) -> dict[str, Any]:
    first_ms = None
    if row.first_token_at is not None:
        first_ms = round((row.first_token_at - row.opened_at).total_seconds() * 1000)
    return {
        "attempt": row.attempt,
        "outcome": row.outcome,
        "error_code": row.error_code or None,
        "node_class": row.node_class,
        "country": row.country or None,
        "opened_at": row.opened_at.isoformat(),
        "closed_at": row.closed_at.isoformat(),
        "first_token_ms": first_ms,
        "total_ms": round((row.closed_at - row.opened_at).total_seconds() * 1000),
        "token_source": row.token_source,
        "billed": {
            "prompt_tokens": row.prompt_tokens,
            "cached_tokens": row.cached_tokens,
            "completion_tokens": row.completion_tokens,
        },
        "claimed": {
            "prompt_tokens": row.claimed_prompt_tokens,
            "cached_tokens": row.claimed_cached_tokens,
            "completion_tokens": row.claimed_completion_tokens,
        },
        "counted": {
            "prompt_tokens": row.counted_prompt_tokens,
            "completion_tokens": row.counted_completion_tokens,
        },
        "held": decimal_text(row.hold_nano),
        "cost": decimal_text(row.charge_nano),
        "routing": _routing(row.routing),
    }


def _routing(routing: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the customer may see: how the choice was made, not which other nodes exist."""
    if routing is None:
        return None
    return {name: routing[name] for name in ("by", "candidates", "refused", "predicted_ms") if name in routing}


def _price(row: UsageRecord) -> dict[str, Any] | None:
    terms = price_version(price_version_id=row.price_version_id)
    if terms is None:
        return None
    lines = rating.cost_lines(
        price=terms, prompt=row.prompt_tokens, cached=row.cached_tokens, completion=row.completion_tokens
    )
    return {
        "version": terms.version,
        "lines": [_line(line) for line in lines],
    }


def _line(line: rating.CostLine) -> dict[str, Any]:
    is_request = line.label == "request"
    unit = decimal_text(line.unit_nano) if is_request else per_token(line.unit_nano)
    return {"label": line.label, "quantity": line.quantity, "unit_price": unit}
