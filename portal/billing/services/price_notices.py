"""Tells customers of a new price before it holds, and of one that was taken back after they had been told."""

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from portal.accounts.models import Organization, OrganizationState
from portal.accounts.services import owners
from portal.billing.models import PriceNotice, PriceVersion
from portal.billing.selectors import price_notices as selectors
from portal.core.money import decimal_text

# One that holds at once is told too, by the first sweep after it.
_LATE: Final = timedelta(days=1)


def tell(*, now: datetime, limit: int = 500) -> int:
    """Write to the owners of each organization that a coming price concerns; return how many organizations were told.

    A version is told `PRICE_NOTICE_DAYS` days before it holds, or at once where it comes sooner. Safe to run twice.
    """
    until = now + timedelta(days=settings.PRICE_NOTICE_DAYS)
    told = 0
    for version in selectors.coming(after=now - _LATE, until=until):
        before = selectors.price_before(version)
        if before is None:
            continue  # the model's first price changes nothing for anybody
        for organization in selectors.concerned(version, now=now)[: limit - told]:
            told += _tell(version, before, organization, now)
    return told


def withdraw(*, now: datetime, limit: int = 500) -> int:
    """Write to those who were told of a price that has been canceled since; return how many were."""
    taken_back = 0
    for notice in selectors.to_withdraw(limit=limit):
        with transaction.atomic():
            changed = PriceNotice.objects.filter(pk=notice.pk, withdrawn_at=None).update(withdrawn_at=now)
            if changed:
                owners.tell_owners(
                    organization=notice.organization,
                    key=f"price-canceled:{notice.version_id}:{notice.organization.public_id}",
                    template="price_canceled",
                    context={
                        "model": notice.version.model.public_id,
                        "from": f"{notice.version.effective_from:%Y-%m-%d %H:%M}",
                    },
                    now=now,
                )
        taken_back += changed
    return taken_back


def _tell(version: PriceVersion, before: PriceVersion, organization: Organization, now: datetime) -> int:
    if organization.state != OrganizationState.ACTIVE:
        return 0
    with transaction.atomic():
        _, is_new = PriceNotice.objects.get_or_create(
            version=version, organization=organization, defaults={"sent_at": now}
        )
        if is_new:
            owners.tell_owners(
                organization=organization,
                key=f"price-change:{version.pk}:{organization.public_id}",
                template="price_change",
                context={
                    "model": version.model.public_id,
                    "from": f"{version.effective_from:%Y-%m-%d %H:%M}",
                    "currency": settings.CURRENCY.upper(),
                    "lines": _lines(before, version),
                },
                now=now,
            )
    return int(is_new)


def _lines(before: PriceVersion, after: PriceVersion) -> list[list[str]]:
    names = {
        "prompt_nano_per_mtok": "prompt tokens, per million",
        "cached_nano_per_mtok": "cached prompt tokens, per million",
        "completion_nano_per_mtok": "completion tokens, per million",
        "request_nano": "each request",
    }
    pairs = [(words, getattr(before, name), getattr(after, name)) for name, words in names.items()]
    return [[words, decimal_text(was), decimal_text(will)] for words, was, will in pairs if was or will]
