"""The pool's margin: what customers were charged, less all that it cost to serve them, by day, model and class.

What house nodes cost is counted here and nowhere booked: the operator pays for them outside the ledger, which has only
the money that moves through the pool.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db import connection
from django.db.models import Sum

from portal.billing.models import EarningDay, SpendDay
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import availability, journal
from portal.catalog.models import CatalogModel
from portal.nodes.models import NodeClass
from portal.nodes.rules.house_costs import cost_nano
from portal.nodes.selectors.house_costs import HouseNode, house_nodes

# What the pool pays beside providers: each account's debits less its credits, by the day they took effect.
LOSSES: Final[Mapping[str, str]] = {
    Kind.STRIPE_FEES: "stripe_fees_nano",
    Kind.STRIPE_ADJUSTMENTS: "stripe_fees_nano",
    Kind.DISPUTE_LOSS: "write_offs_nano",
    Kind.BAD_DEBT: "write_offs_nano",
    Kind.PROMO_EXPENSE: "promotion_nano",
    Kind.BREAKAGE: "promotion_nano",
    Kind.PLATFORM_REVENUE: "corrections_nano",
}
_MOVED = """
    SELECT (part.effective_at AT TIME ZONE 'UTC')::date, account.kind, sum(part.amount)
    FROM billing_ledgeraccount account
    JOIN LATERAL (
        SELECT effective_at, amount FROM billing_ledgertransfer WHERE debit_account_id = account.id
            AND effective_at >= %(starts_at)s AND effective_at < %(ends_at)s
        UNION ALL SELECT effective_at, -amount FROM billing_ledgertransfer WHERE credit_account_id = account.id
            AND effective_at >= %(starts_at)s AND effective_at < %(ends_at)s
    ) part ON true
    WHERE account.kind = ANY(%(kinds)s)
    GROUP BY 1, 2
"""
# Revenue has a leg in every posting of usage; what else moved it is looked up from the other transactions, each read by
# itself: the database takes the revenue's transfers for few, and would read them all.
_CORRECTED = """
    SELECT (tx.effective_at AT TIME ZONE 'UTC')::date, 'platform_revenue', sum(part.moved)
    FROM billing_ledgertx tx
    CROSS JOIN LATERAL (
        SELECT sum(CASE WHEN debit.kind = 'platform_revenue' THEN amount
            WHEN credit.kind = 'platform_revenue' THEN -amount END) AS moved
        FROM billing_ledgertransfer
        JOIN billing_ledgeraccount debit ON debit.id = debit_account_id
        JOIN billing_ledgeraccount credit ON credit.id = credit_account_id
        WHERE tx_id = tx.id
    ) part
    WHERE tx.kind = ANY(%(others)s) AND tx.effective_at >= %(starts_at)s AND tx.effective_at < %(ends_at)s
        AND part.moved IS NOT NULL
    GROUP BY 1
"""
# The postings of every minute and hour that have no leg in revenue beside usage.
_NO_CORRECTIONS: Final = frozenset({"usage", "maturity", "reserve_released", "availability"})


@dataclass(slots=True)
class Row:
    """One day, model or class, in nano units. What belongs to no model or class stands in a row of its own."""

    name: str
    requests: int = 0
    charge_nano: int = 0
    earned_nano: int = 0
    availability_nano: int = 0
    house_nano: int = 0
    stripe_fees_nano: int = 0
    write_offs_nano: int = 0
    promotion_nano: int = 0
    corrections_nano: int = 0

    @property
    def margin_nano(self) -> int:
        """What is left to the operator."""
        return self.charge_nano - self.cost_nano

    @property
    def cost_nano(self) -> int:
        """All that was paid out, lost or given away."""
        paid = self.earned_nano + self.availability_nano + self.house_nano
        return paid + self.stripe_fees_nano + self.write_offs_nano + self.promotion_nano + self.corrections_nano

    @property
    def others_nano(self) -> int:
        """What is neither paid to providers nor for machines nor to Stripe."""
        return self.write_offs_nano + self.promotion_nano + self.corrections_nano

    def add(self, other: "Row") -> None:
        """Add another row's amounts."""
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_AMOUNTS: Final = tuple(name for name in Row.__slots__ if name != "name")


@dataclass(frozen=True, slots=True)
class Margin:
    """The days from `first` to `last`, both included; the three lists have the same sum."""

    first: date
    last: date
    total: Row
    days: list[Row] = field(default_factory=list)
    models: list[Row] = field(default_factory=list)
    classes: list[Row] = field(default_factory=list)


def margin(*, first: date, last: date, now: datetime) -> Margin:
    """Return the margin of these days; house nodes cost until `now` at most."""
    days = {first + timedelta(days=offset): Row("") for offset in range((last - first).days + 1)}
    models: dict[int, Row] = defaultdict(lambda: Row(""))
    classes: dict[str, Row] = defaultdict(lambda: Row(""))
    starts_at = datetime.combine(first, time(), UTC)
    ends_at = datetime.combine(last + timedelta(days=1), time(), UTC)
    _add_usage(days, models, classes, first=first, last=last)
    for hour, node_class, amount in availability.paid_by_day(first=starts_at, last=ends_at):
        paid = Row("", availability_nano=amount)
        days[hour.astimezone(UTC).date()].add(paid)
        classes[node_class].add(paid)
    for day, nano in _house_costs(house_nodes(), days, now=now):
        cost = Row("", house_nano=nano)
        days[day].add(cost)
        classes[NodeClass.HOUSE].add(cost)
    losses = Row("")
    for day, kind, nano in _moved(starts_at, ends_at):
        moved = Row("", **{LOSSES[kind]: nano})
        days[day].add(moved)
        losses.add(moved)
    total = Row("All")
    for row in days.values():
        total.add(row)
    return Margin(
        first=first,
        last=last,
        total=total,
        days=[_named(row, f"{day}") for day, row in days.items()],
        models=[*_models(models), *_rest("of no single model", total, models.values())],
        classes=[
            *(_named(row, name or "unknown") for name, row in sorted(classes.items())),
            *_rest("of no class", total, classes.values()),
        ],
    )


def _add_usage(
    days: dict[date, Row], models: dict[int, Row], classes: dict[str, Row], *, first: date, last: date
) -> None:
    """Revenue by day and model is from the sums of spend; what a class of nodes brought is from those of earnings."""
    spent = SpendDay.objects.filter(day__range=(first, last)).values_list("day", "model_id")
    for day, model, requests, charge in spent.annotate(Sum("requests"), Sum("charge_nano")).order_by("day", "model_id"):
        row = Row("", requests=int(requests), charge_nano=int(charge))
        days[day].add(row)
        models[model].add(row)
    earned = EarningDay.objects.filter(day__range=(first, last)).values_list("day", "model_id", "node_class")
    sums = earned.annotate(Sum("requests"), Sum("charge_nano"), Sum("earned_nano"))
    for day, model, node_class, requests, charge, nano in sums.order_by("day", "model_id", "node_class"):
        paid = Row("", earned_nano=int(nano))
        days[day].add(paid)
        models[model].add(paid)
        classes[node_class].add(Row("", requests=int(requests), charge_nano=int(charge), earned_nano=int(nano)))


def _house_costs(nodes: Iterable[HouseNode], days: Iterable[date], *, now: datetime) -> Iterable[tuple[date, int]]:
    asked = list(days)
    for node in nodes:
        for day in asked:
            start = datetime.combine(day, time(), UTC)
            end = min(start + timedelta(days=1), now, node.until or now)
            nano = cost_nano(node.rates, start=max(start, node.since), end=end)
            if nano:
                yield day, nano


def _moved(starts_at: datetime, ends_at: datetime) -> Iterable[tuple[date, str, int]]:
    kinds = [str(kind) for kind in LOSSES if kind != Kind.PLATFORM_REVENUE]
    others = [kind for kind in journal.kinds() if kind not in _NO_CORRECTIONS]
    given: dict[str, list[str] | datetime] = {
        "kinds": kinds,
        "others": others,
        "starts_at": starts_at,
        "ends_at": ends_at,
    }
    with connection.cursor() as cursor:
        for statement in (_MOVED, _CORRECTED):
            cursor.execute(statement, given)
            for day, kind, nano in cursor.fetchall():
                yield day, str(kind), int(nano)


def _models(rows: dict[int, Row]) -> list[Row]:
    names = dict(CatalogModel.objects.filter(pk__in=rows).values_list("pk", "public_id"))
    named = [_named(row, names.get(pk, str(pk))) for pk, row in rows.items()]
    return sorted(named, key=lambda row: (-row.charge_nano, row.name))


def _rest(name: str, total: Row, parts: Iterable[Row]) -> list[Row]:
    """Return a row of what belongs to none of the parts, so that the list adds up to the total."""
    rest = Row(name)
    rest.add(total)
    for part in parts:
        for amount in _AMOUNTS:
            setattr(rest, amount, getattr(rest, amount) - getattr(part, amount))
    return [rest] if any(getattr(rest, amount) for amount in _AMOUNTS) else []


def _named(row: Row, name: str) -> Row:
    row.name = name
    return row
