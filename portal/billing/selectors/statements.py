"""What a statement says, live or frozen."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from portal.accounts.models import Organization
from portal.billing.models import ClosedPeriod, Statement, StatementKind
from portal.billing.rules.accounts import CUSTOMER_KINDS, PROVIDER_KINDS, Kind
from portal.billing.rules.periods import Period
from portal.billing.rules.statements import Content, EntryLine, PriceLine, UsageLine
from portal.providers.models import Provider

# A refund on its way has left the customer's position; a payout on its way is still owed to the provider.
_POSITION: dict[str, tuple[Kind, ...]] = {
    StatementKind.CUSTOMER: tuple(kind for kind in CUSTOMER_KINDS if kind != Kind.REFUND_CLEARING),
    StatementKind.PROVIDER: PROVIDER_KINDS,
}

# Two index lookups, one for each side of the account, instead of a scan with OR.
_MOVES = """
    SELECT tx.effective_at, tx.id AS tx_id, tx.kind, tx.note, part.amount
    FROM billing_ledgeraccount account
    JOIN billing_ledgertransfer part ON part.credit_account_id = account.id
    JOIN billing_ledgertx tx ON tx.id = part.tx_id
    WHERE account.owner = %(party)s AND account.kind = ANY(%(kinds)s)
    UNION ALL
    SELECT tx.effective_at, tx.id, tx.kind, tx.note, -part.amount
    FROM billing_ledgeraccount account
    JOIN billing_ledgertransfer part ON part.debit_account_id = account.id
    JOIN billing_ledgertx tx ON tx.id = part.tx_id
    WHERE account.owner = %(party)s AND account.kind = ANY(%(kinds)s)
"""

_POSITION_AT = f"SELECT coalesce(sum(amount), 0) FROM ({_MOVES}) moves WHERE effective_at < %(at)s"  # noqa: S608  constant

_ENTRIES = f"""
    SELECT effective_at, kind, tx_id, note, sum(amount) FROM ({_MOVES}) moves
    WHERE effective_at >= %(starts_at)s AND effective_at < %(ends_at)s AND kind NOT IN ('usage', 'availability')
    GROUP BY effective_at, kind, tx_id, note HAVING sum(amount) <> 0 ORDER BY effective_at, tx_id
"""  # noqa: S608  constant

# Booked by the hour, told by the day: a month of hours is no reading.
_READY = """
    SELECT (tx.effective_at AT TIME ZONE 'UTC')::date, paid.node, sum(paid.minutes * paid.gpus), sum(paid.amount_nano)
    FROM billing_availabilityhour paid JOIN billing_ledgertx tx ON tx.id = paid.tx_id
    WHERE paid.provider = %(party)s AND tx.effective_at >= %(starts_at)s AND tx.effective_at < %(ends_at)s
    GROUP BY 1, 2 ORDER BY 1, 2
"""

_USAGE = """
    SELECT model.public_id, {node} AS node, count(*), sum(usage.prompt_tokens), sum(usage.cached_tokens),
        sum(usage.completion_tokens), sum({amount})
    FROM billing_ledgertx tx
    JOIN billing_usageposting posting ON posting.tx_id = tx.id
    JOIN metering_usagerecord usage ON usage.opened_on = posting.opened_on
        AND usage.request_id = posting.request_id AND usage.attempt = posting.attempt
    JOIN catalog_catalogmodel model ON model.id = usage.model_id
    {join}
    WHERE tx.kind = 'usage' AND tx.effective_at >= %(starts_at)s AND tx.effective_at < %(ends_at)s
    GROUP BY 1, 2 HAVING sum({amount}) > 0 ORDER BY 1, 2
"""

_USAGE_OF: dict[str, str] = {
    StatementKind.CUSTOMER: _USAGE.format(
        node="''",
        amount="posting.charge_nano",
        join="JOIN accounts_organization party ON party.id = usage.organization_id AND party.public_id = %(party)s",
    ),
    StatementKind.PROVIDER: _USAGE.format(
        node="node.public_id",
        amount="posting.provider_nano",
        join="JOIN providers_provider party ON party.id = usage.provider_id AND party.public_id = %(party)s"
        " JOIN nodes_node node ON node.id = usage.node_id",
    ),
}

_PRICES = """
    SELECT model.public_id, price.version, price.effective_from, count(*), {share} AS share,
        price.prompt_nano_per_mtok, price.cached_nano_per_mtok, price.completion_nano_per_mtok, price.request_nano,
        CASE WHEN price.provider_id IS NOT NULL THEN 'private' WHEN price.organization_id IS NOT NULL THEN 'own'
            ELSE 'public' END
    FROM billing_ledgertx tx
    JOIN billing_usageposting posting ON posting.tx_id = tx.id
    JOIN metering_usagerecord usage ON usage.opened_on = posting.opened_on
        AND usage.request_id = posting.request_id AND usage.attempt = posting.attempt
    JOIN billing_priceversion price ON price.id = usage.price_version_id
    JOIN catalog_catalogmodel model ON model.id = usage.model_id
    {join}
    WHERE tx.kind = 'usage' AND tx.effective_at >= %(starts_at)s AND tx.effective_at < %(ends_at)s
    GROUP BY price.id, model.public_id, {share} ORDER BY 1, 3, 2, 5, price.id
"""

_PRICES_OF: dict[str, str] = {
    StatementKind.CUSTOMER: _PRICES.format(
        share="usage.share_bps * 0",
        join="JOIN accounts_organization party ON party.id = usage.organization_id AND party.public_id = %(party)s",
    ),
    StatementKind.PROVIDER: _PRICES.format(
        share="usage.share_bps",
        join="JOIN providers_provider party ON party.id = usage.provider_id AND party.public_id = %(party)s",
    ),
}

_PARTIES = """
    SELECT DISTINCT account.owner FROM billing_ledgeraccount account
    WHERE account.kind = ANY(%(kinds)s) AND EXISTS (
        SELECT 1 FROM billing_ledgertransfer part JOIN billing_ledgertx tx ON tx.id = part.tx_id
        WHERE (part.credit_account_id = account.id OR part.debit_account_id = account.id)
            AND tx.effective_at >= %(starts_at)s AND tx.effective_at < %(ends_at)s)
    AND NOT EXISTS (
        SELECT 1 FROM billing_statement done
        WHERE done.kind = %(kind)s AND done.party = account.owner AND done.starts_at = %(starts_at)s)
    ORDER BY account.owner
"""


@dataclass(frozen=True, slots=True)
class Party:
    """Whose statement it is: a kind and a public id."""

    kind: str
    public_id: str


def content(*, party: Party, period: Period, currency: str) -> Content:
    """Return what the party's statement of the period says now."""
    given: dict[str, str | datetime | list[str]] = {
        "party": party.public_id,
        "kinds": [str(kind) for kind in _POSITION[party.kind]],
        "starts_at": period.starts_at,
        "ends_at": period.ends_at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_USAGE_OF[party.kind], given)
        usage = tuple(UsageLine(*row[:2], *(int(value) for value in row[2:])) for row in cursor.fetchall())
        cursor.execute(_PRICES_OF[party.kind], given)
        prices = tuple(
            PriceLine(
                model=model,
                version=int(version),
                effective_from=at.isoformat(),
                requests=int(requests),
                share_bps=int(share),
                prompt_nano=int(prompt),
                cached_nano=int(cached),
                completion_nano=int(completion),
                request_nano=int(request),
                scope=scope,
            )
            for model, version, at, requests, share, prompt, cached, completion, request, scope in cursor.fetchall()
        )
        cursor.execute(_ENTRIES, given)
        entries = [
            EntryLine(at=at.isoformat(), kind=kind, tx=str(tx), note=note, amount_nano=int(amount))
            for at, kind, tx, note, amount in cursor.fetchall()
        ]
        cursor.execute(_READY, given)
        entries += [_ready(*row) for row in cursor.fetchall()]
    return Content(
        kind=party.kind,
        party=party.public_id,
        currency=currency,
        starts_at=period.starts_at.isoformat(),
        ends_at=period.ends_at.isoformat(),
        opening_nano=_position(given | {"at": period.starts_at}),
        closing_nano=_position(given | {"at": period.ends_at}),
        usage=usage,
        entries=tuple(sorted(entries, key=lambda line: line.at)),
        prices=prices,
    )


def letterhead(*, party: Party) -> dict[str, list[str]]:
    """Return who speaks and to whom, in lines, as they stand now; a frozen statement keeps them as they were."""
    return {"from": [settings.POOL_NAME, settings.PUBLIC_URL], "to": _addressee(party)}


def _addressee(party: Party) -> list[str]:
    if party.kind == StatementKind.PROVIDER:
        row = Provider.objects.filter(public_id=party.public_id).first()
        return [row.legal_name, row.public_id, row.country, row.contact_email] if row else [party.public_id]
    name = Organization.objects.filter(public_id=party.public_id).values_list("name", flat=True).first()
    return [name, party.public_id] if name else [party.public_id]


def parties_without(*, kind: str, period: Period) -> list[str]:
    """Return the public ids that moved money in the period and have no frozen statement of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            _PARTIES,
            {
                "kind": kind,
                "kinds": [str(each) for each in _POSITION[kind]],
                "starts_at": period.starts_at,
                "ends_at": period.ends_at,
            },
        )
        return [row[0] for row in cursor.fetchall()]


def frozen(*, party: Party, limit: int = 36) -> QuerySet[Statement]:
    """Return the party's frozen statements, newest first."""
    return Statement.objects.filter(kind=party.kind, party=party.public_id).order_by("-starts_at", "id")[:limit]


def closed_periods(*, limit: int = 24) -> list[Period]:
    """Return closed months, newest first."""
    rows = ClosedPeriod.objects.order_by("-starts_at")[:limit]
    return [Period(row.starts_at, row.ends_at) for row in rows]


def _ready(day: date, node: str, gpu_minutes: int, amount: int) -> EntryLine:
    at = datetime.combine(day, time(), UTC).isoformat()
    note = f"{node}: {gpu_minutes} GPU-minutes"
    return EntryLine(at=at, kind="availability", tx="", note=note, amount_nano=int(amount))


def _position(given: dict[str, str | datetime | list[str]]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_POSITION_AT, given)
        return int(cursor.fetchone()[0])
