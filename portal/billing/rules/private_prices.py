"""Which of a provider's private prices an organization has accepted: none may become dearer behind its back."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from portal.billing.rules.rating import PriceTerms


class Version(PriceTerms, Protocol):
    """A stored price version."""

    @property
    def pk(self) -> int:
        """Its id."""

    @property
    def effective_from(self) -> datetime:
        """From when it holds."""

    @property
    def created_at(self) -> datetime:
        """When it was set."""


def unaccepted(versions: Iterable[Version], *, accepted_at: datetime) -> frozenset[int]:
    """Return the ids of the versions that were set after the acceptance and ask for more than what was accepted.

    `versions` are one provider's for one model, in the order in which they take effect. What had been set by then was
    shown, announced prices too; a later version counts as accepted where it asks for no more than they would.
    """
    shown: Version | None = None
    refused: set[int] = set()
    for row in versions:
        if row.created_at <= accepted_at:
            shown = row
        elif shown is None or not is_no_dearer(row, than=shown):
            refused.add(row.pk)
    return frozenset(refused)


def is_no_dearer(terms: PriceTerms, *, than: PriceTerms) -> bool:
    """Tell whether no request can cost more by `terms`."""
    return (
        terms.prompt_nano_per_mtok <= than.prompt_nano_per_mtok
        and terms.cached_nano_per_mtok <= than.cached_nano_per_mtok
        and terms.completion_nano_per_mtok <= than.completion_nano_per_mtok
        and terms.request_nano <= than.request_nano
    )
