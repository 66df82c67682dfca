"""The explainable record of a request: whole for the customer who sent it, his own attempts for a provider.

A provider learns nothing of the customer, of the key, or of other nodes; a customer nothing of which nodes exist.
"""

from typing import Any
from uuid import UUID

from portal.billing.models import UsagePosting
from portal.billing.rules import rating
from portal.billing.rules.answer_ids import answer_id
from portal.billing.selectors.price_versions import price_version, scope_of
from portal.core.money import decimal_text, per_token_text
from portal.metering.models import UsageRecord
from portal.metering.selectors import usage
from portal.nodes.models import Node

_SHOWN_ROUTING = (
    "by",
    "pool",
    "nodes",
    "candidates",
    "refused",
    "private_refused",
    "predicted_ms",
    "waited_ms",
    "retry_stopped_by",
)


def for_customer(*, organization_id: int, request_id: UUID, currency: str) -> dict[str, Any] | None:
    """Return the organization's own request with all its attempts, or None."""
    rows = usage.by_request(organization_id=organization_id, request_id=request_id)
    if not rows:
        return None
    last = rows[-1]
    return {
        "id": answer_id(endpoint=last.endpoint, request_id=request_id),
        "object": "request",
        "client_request_id": last.client_request_id or None,
        "endpoint": f"/v1/{last.endpoint}",
        "stream": last.is_stream,
        "opened_at": rows[0].opened_at.isoformat(),
        "closed_at": last.closed_at.isoformat(),
        "outcome": last.outcome,
        "attempts": [_customers_attempt(row) for row in rows],
        "cost": decimal_text(sum(row.charge_nano for row in rows)),
        "currency": currency,
        "price": _price(next((row for row in rows if row.charge_nano), last)),
    }


def for_provider(*, provider_id: int, request_id: UUID, currency: str) -> dict[str, Any] | None:
    """Return the attempts of one request that were the provider's, or None where it had none."""
    rows = usage.attempts_of_provider(provider_id=provider_id, request_id=request_id)
    if not rows:
        return None
    nodes = dict(Node.objects.filter(pk__in={row.node_id for row in rows}).values_list("pk", "public_id"))
    return {
        "id": str(request_id),
        "object": "provider_request",
        "endpoint": f"/v1/{rows[0].endpoint}",
        "stream": rows[0].is_stream,
        "attempts": [_providers_attempt(row, nodes.get(row.node_id)) for row in rows],
        "currency": currency,
    }


def _customers_attempt(row: UsageRecord) -> dict[str, Any]:
    routing = row.routing or {}
    return _attempt(row) | {
        "node_class": row.node_class,
        "country": row.country or None,
        "held": decimal_text(row.hold_nano),
        "cost": decimal_text(row.charge_nano),
        "routing": {name: routing[name] for name in _SHOWN_ROUTING if name in routing} or None,
    }


def _providers_attempt(row: UsageRecord, node: str | None) -> dict[str, Any]:
    posting = UsagePosting.objects.filter(
        opened_on=row.opened_on, request_id=row.request_id, attempt=row.attempt
    ).first()
    return _attempt(row) | {
        "node": node,
        "charged": decimal_text(row.charge_nano),
        "share_bps": row.share_bps,
        "earned": decimal_text(posting.provider_nano if posting else row.provider_nano),
        "booked": posting is not None,
        "withheld": (posting.withheld or None) if posting else None,
        "price": _price(row),
    }


def _attempt(row: UsageRecord) -> dict[str, Any]:
    """Return what both sides may see."""
    first_ms = None
    if row.first_token_at is not None:
        first_ms = round((row.first_token_at - row.opened_at).total_seconds() * 1000)
    return {
        "attempt": row.attempt,
        "outcome": row.outcome,
        "error_code": row.error_code or None,
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
            "cached_tokens": row.expected_cached_tokens,
            "completion_tokens": row.counted_completion_tokens,
        },
    }


def _price(row: UsageRecord) -> dict[str, Any] | None:
    terms = price_version(price_version_id=row.price_version_id)
    if terms is None:
        return None
    lines = rating.cost_lines(
        price=terms, prompt=row.prompt_tokens, cached=row.cached_tokens, completion=row.completion_tokens
    )
    return {
        "version": terms.version,
        "scope": scope_of(terms),
        "lines": [_line(line) for line in lines],
    }


def _line(line: rating.CostLine) -> dict[str, Any]:
    is_request = line.label == "request"
    unit = decimal_text(line.unit_nano) if is_request else per_token_text(line.unit_nano)
    return {"label": line.label, "quantity": line.quantity, "unit_price": unit}
