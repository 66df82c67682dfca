"""A new price on the usage of the last 30 days: request by request where that is quick, else from the daily sums."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Sum

from portal.accounts.models import Organization
from portal.billing.models import SpendDay
from portal.billing.rules import previews
from portal.billing.rules.previews import Estimate, Sums
from portal.billing.rules.rating import PriceTerms

DAYS: Final = 30
EXACT_UP_TO: Final = 20_000  # requests of all models: a partition has no index by model
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Affected:
    """One organization: what it was charged and what it would have been."""

    public_id: str
    name: str
    requests: int
    now_nano: int
    then_nano: int

    @property
    def change_nano(self) -> int:
        """By how much its bill would differ."""
        return self.then_nano - self.now_nano


@dataclass(frozen=True, slots=True)
class Money:
    """What was charged and what of it providers earned."""

    charge_nano: int
    earned_nano: int

    @property
    def margin_nano(self) -> int:
        """What is left to the pool."""
        return self.charge_nano - self.earned_nano


@dataclass(frozen=True, slots=True)
class Preview:
    """The usage from `first` to `last` (UTC days, both included) at its own prices and at the new one.

    `bound_nano` is how far the sums may be away from the sum of all requests; 0 where each was rated again.
    """

    first: date
    last: date
    requests: int
    now: Money
    then: Money
    is_exact: bool
    bound_nano: int
    organizations: tuple[Affected, ...]
    others: int

    @property
    def change_nano(self) -> int:
        """By how much customers' bills would differ."""
        return self.then.charge_nano - self.now.charge_nano

    @property
    def earned_change_nano(self) -> int:
        """By how much providers' earnings would differ."""
        return self.then.earned_nano - self.now.earned_nano

    @property
    def margin_change_nano(self) -> int:
        """By how much the pool's margin would differ."""
        return self.then.margin_nano - self.now.margin_nano


@dataclass(frozen=True, slots=True)
class _Asked:
    model_id: int
    terms: PriceTerms
    first: date
    last: date
    organization_id: int | None

    @property
    def given(self) -> dict[str, Any]:
        """Parameters of the queries."""
        return {
            "model": self.model_id,
            "first": self.first,
            "last": self.last,
            "opened": self.first - timedelta(days=1),
            "starts_at": datetime.combine(self.first, time(), UTC),
            "ends_at": datetime.combine(self.last + timedelta(days=1), time(), UTC),
            "organization": self.organization_id,
            "prompt": self.terms.prompt_nano_per_mtok,
            "cached": self.terms.cached_nano_per_mtok,
            "completion": self.terms.completion_nano_per_mtok,
            "request": self.terms.request_nano,
        }


@dataclass(frozen=True, slots=True)
class _Row:
    organization_id: int
    requests: int
    now: Money
    then: Money


# Private nodes' usage keeps its own price; what was agreed with an organization changes only with a new agreement.
_SCOPE = """
    version.provider_id IS NULL AND (version.organization_id IS NULL OR version.organization_id = %(organization)s)
"""
_EXACT = f"""
    SELECT usage.organization_id, count(*), sum(usage.charge_nano), sum(rated.charge),
        sum(CASE WHEN rated.is_withheld THEN 0 ELSE usage.provider_nano END),
        sum(CASE WHEN rated.is_withheld THEN 0 ELSE div(rated.charge * usage.share_bps, 10000) END)
    FROM metering_usagerecord usage
    JOIN billing_priceversion version ON version.id = usage.price_version_id AND {_SCOPE}
    LEFT JOIN billing_usageposting posting ON posting.opened_on = usage.opened_on
        AND posting.request_id = usage.request_id AND posting.attempt = usage.attempt
    CROSS JOIN LATERAL (SELECT coalesce(posting.withheld, '') <> '' AS is_withheld, %(request)s + div(
        (usage.prompt_tokens - usage.cached_tokens)::numeric * %(prompt)s
        + usage.cached_tokens::numeric * %(cached)s
        + usage.completion_tokens::numeric * %(completion)s + 500000, 1000000) AS charge) rated
    WHERE usage.model_id = %(model)s AND usage.opened_on >= %(opened)s
        AND usage.closed_at >= %(starts_at)s AND usage.closed_at < %(ends_at)s
        AND (%(organization)s::bigint IS NULL OR usage.organization_id = %(organization)s)
        AND (usage.charge_nano > 0 OR usage.prompt_tokens > 0 OR usage.completion_tokens > 0)
    GROUP BY 1 ORDER BY 1
"""  # noqa: S608  constant
_SPENT = f"""
    SELECT spend.organization_id, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),
        sum(charge_nano)
    FROM billing_spendday spend JOIN billing_priceversion version ON version.id = spend.price_version_id AND {_SCOPE}
    WHERE spend.model_id = %(model)s AND day BETWEEN %(first)s AND %(last)s
        AND (%(organization)s::bigint IS NULL OR spend.organization_id = %(organization)s)
    GROUP BY 1 ORDER BY 1
"""  # noqa: S608  constant
_EARNED = f"""
    SELECT earning.share_bps, sum(requests), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),
        sum(charge_nano), sum(earned_nano)
    FROM billing_earningday earning
    JOIN billing_priceversion version ON version.id = earning.price_version_id AND {_SCOPE}
    WHERE earning.model_id = %(model)s AND day BETWEEN %(first)s AND %(last)s
    GROUP BY 1 ORDER BY 1
"""  # noqa: S608  constant
# Which part of one organization's charges went to providers: the daily sums of earnings do not know customers.
_PART = """
    SELECT coalesce(sum(charge_nano), 0), coalesce(sum(provider_nano), 0) FROM metering_usagehour
    WHERE organization_id = %(organization)s AND hour >= %(starts_at)s AND hour < %(ends_at)s AND model_id = %(model)s
"""


def preview(*, model_id: int, terms: PriceTerms, now: datetime, organization_id: int | None = None) -> Preview:
    """Return what the last 30 days would have come to at `terms`; with an organization, what that one would have."""
    last = now.astimezone(UTC).date()
    asked = _Asked(model_id, terms, last - timedelta(days=DAYS - 1), last, organization_id)
    return _from_records(asked) if _requests(asked) <= EXACT_UP_TO else _from_sums(asked)


def _requests(asked: _Asked) -> int:
    rows = SpendDay.objects.filter(day__range=(asked.first, asked.last))
    if asked.organization_id is not None:
        rows = rows.filter(organization_id=asked.organization_id)
    return int(rows.aggregate(total=Sum("requests", default=0))["total"])


def _from_records(asked: _Asked) -> Preview:
    rows = [
        _Row(organization, requests, Money(int(charge), int(earned)), Money(int(then), int(then_earned)))
        for organization, requests, charge, then, earned, then_earned in _rows(_EXACT, asked)
    ]
    now = Money(sum(row.now.charge_nano for row in rows), sum(row.now.earned_nano for row in rows))
    then = Money(sum(row.then.charge_nano for row in rows), sum(row.then.earned_nano for row in rows))
    return _preview(asked, rows, now=now, then=then, bound_nano=0)


def _from_sums(asked: _Asked) -> Preview:
    rows: list[_Row] = []
    charge = Estimate(0, 0)
    for organization, *values in _rows(_SPENT, asked):
        *counts, paid = (int(value) for value in values)
        each = previews.charged(Sums(*counts), asked.terms)
        rows.append(_Row(organization, counts[0], Money(paid, 0), Money(each.nano, 0)))
        charge = Estimate(charge.nano + each.nano, charge.bound_nano + each.bound_nano)
    earned_now, earned = _earned(asked, charge) if asked.organization_id is None else _earned_of_one(asked, charge)
    bound = max(charge.bound_nano, earned.bound_nano)
    now = Money(sum(row.now.charge_nano for row in rows), earned_now)
    return _preview(asked, rows, now=now, then=Money(charge.nano, earned.nano), bound_nano=bound)


def _earned(asked: _Asked, charge: Estimate) -> tuple[int, Estimate]:
    now, nano, bound = 0, 0, charge.bound_nano
    for share_bps, *values in _rows(_EARNED, asked):
        *counts, _charged, earned = (int(value) for value in values)
        then = previews.earned(
            previews.charged(Sums(*counts), asked.terms), requests=counts[0], share_bps=int(share_bps)
        )
        now, nano, bound = now + earned, nano + then.nano, bound + then.bound_nano
    return now, Estimate(nano, bound)


def _earned_of_one(asked: _Asked, charge: Estimate) -> tuple[int, Estimate]:
    paid, earned = (int(value) for value in next(iter(_rows(_PART, asked))))
    if not paid:
        return 0, Estimate(0, charge.bound_nano)
    return earned, Estimate(charge.nano * earned // paid, charge.bound_nano)


def _preview(asked: _Asked, rows: list[_Row], *, now: Money, then: Money, bound_nano: int) -> Preview:
    largest = sorted(rows, key=lambda row: (-abs(row.then.charge_nano - row.now.charge_nano), row.organization_id))
    named = Organization.objects.in_bulk([row.organization_id for row in largest[:_SHOWN]])
    shown = [
        Affected(
            public_id=named[row.organization_id].public_id,
            name=named[row.organization_id].name,
            requests=row.requests,
            now_nano=row.now.charge_nano,
            then_nano=row.then.charge_nano,
        )
        for row in largest[:_SHOWN]
        if row.organization_id in named
    ]
    return Preview(
        first=asked.first,
        last=asked.last,
        requests=sum(row.requests for row in rows),
        now=now,
        then=then,
        is_exact=bound_nano == 0,
        bound_nano=bound_nano,
        organizations=tuple(shown),
        others=len(rows) - len(shown),
    )


def _rows(statement: str, asked: _Asked) -> Iterable[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, asked.given)
        return list(cursor.fetchall())
