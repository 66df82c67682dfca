"""What is due to a provider, booked together: its many small rows are one posting, and it keeps no other waiting."""

import hashlib
import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet

from portal.billing.errors import BelowFloor

_Row = TypeVar("_Row", bound=Model)

log = logging.getLogger(__name__)


def book(rows: QuerySet[_Row], *, limit: int, post: Callable[[list[_Row]], None], blocked: str, provider: str) -> int:
    """Post up to `limit` of the rows of one provider in a transaction of its own; return how many.

    Each row is taken once; what another run holds is left to it. Where the provider's balance is short of its rows
    nothing is posted and `blocked` is logged; `ledger_check` names the difference.
    """
    try:
        with transaction.atomic():
            taken = list(rows.select_for_update(skip_locked=True, of=("self",))[:limit])
            if taken:
                post(taken)
    except BelowFloor as error:
        log.error(blocked, extra={"provider": provider, "reason": error.message})  # noqa: TRY400  the message says it all
        return 0
    return len(taken)


def digest(rows: Iterable[Model]) -> str:
    """Return what names these rows together, for the key of their posting."""
    return hashlib.sha256(",".join(str(row.pk) for row in rows).encode()).hexdigest()
