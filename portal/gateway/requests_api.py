"""GET /v1/requests/{id}: the explainable record of the caller's own request."""

from typing import Any, Final
from uuid import UUID

from portal.billing.rules import answer_ids
from portal.billing.selectors import records
from portal.gateway.errors import INVALID_REQUEST, ApiError

_SECONDS_UNTIL_SETTLED: Final = 2.0


def parse_id(text: str) -> UUID:
    """Return the request id from an answer's id or a bare UUID. Raises ApiError request_not_found."""
    bare = next((text.removeprefix(prefix) for prefix in answer_ids.PREFIXES if text.startswith(prefix)), text)
    try:
        return UUID(bare)
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
    return records.for_customer(organization_id=organization_id, request_id=request_id, currency=currency)
