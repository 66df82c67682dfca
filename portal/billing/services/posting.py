"""Books usage: charge and pay never part, each record once, whatever dies in between."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from portal.audit.services import SYSTEM_ACTOR
from portal.billing import locks
from portal.billing.models import (
    BudgetLease,
    BudgetWindow,
    CreditLease,
    EarningMaturity,
    HeldEarning,
    LeaseState,
    LedgerAccount,
    LedgerTx,
    UnpostableUsage,
    UsagePosting,
)
from portal.billing.rules import accounts as chart
from portal.billing.rules import batches, maturity, parties
from portal.billing.rules.accounts import Kind
from portal.billing.rules.batches import Batch, Line, RecordKey
from portal.billing.rules.parties import Bond
from portal.billing.rules.risk import Tier
from portal.billing.selectors import balances, provider_tiers, related, risk, unposted
from portal.billing.selectors.provider_tiers import Standing
from portal.billing.services import budgets, credit_watch, leases, ledger, rollups, templates
from portal.billing.services import risk as customer_risk
from portal.metering.models import UsageQueue, UsageRecord
from portal.providers.models import Provider, ProviderKind

RETRY_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Posted:
    """What one run did; `known` were booked before, `unpostable` name something that does not exist."""

    records: int = 0
    transactions: int = 0
    charged_nano: int = 0
    earned_nano: int = 0
    known: int = 0
    unpostable: int = 0

    @property
    def taken(self) -> int:
        """How many queue rows this run dealt with."""
        return self.records + self.known + self.unpostable


@dataclass(frozen=True, slots=True)
class _World:
    """The rows that this run's records point at; the leases are locked."""

    leases: dict[int, CreditLease]
    promo: set[int]
    budget_leases: dict[int, BudgetLease]
    providers: dict[int, Provider]
    organizations: dict[int, str]
    tiers: dict[int, str]
    bonds: dict[related.Pair, Bond]
    standings: dict[str, Standing]


def post_usage(*, now: datetime, limit: int = 2000) -> Posted:
    """Book up to `limit` queued records in one transaction; rows that another poster holds are left to it."""
    with transaction.atomic():
        tickets = list(unposted.queue(now=now).select_for_update(skip_locked=True, of=("self",))[:limit])
        if not tickets:
            return Posted()
        locks.open_periods()
        known = unposted.posted(unposted.key_of(ticket) for ticket in tickets)
        records = unposted.records({unposted.key_of(ticket) for ticket in tickets} - known)
        world = _load(records, now)
        refused = _refusals(records, world)
        sound = [record for record in records if unposted.key_of(record) not in refused]
        result = _book(sound, world, now)
        _set_aside(refused, now)
        _finish(tickets, refused)
        credit_watch.notice(organization_ids={record.organization_id for record in sound}, now=now)
    return Posted(
        records=len(sound),
        transactions=result.transactions,
        charged_nano=result.charged_nano,
        earned_nano=result.earned_nano,
        known=len(known),
        unpostable=len(refused),
    )


def post_all(*, now: datetime, limit: int = 2000, rounds: int = 40) -> Posted:
    """Book what is queued, `limit` records a transaction, until nothing more can be taken or `rounds` are over."""
    total = Posted()
    for _ in range(rounds):
        run = post_usage(now=now, limit=limit)
        total = Posted(*(mine + more for mine, more in zip(astuple(total), astuple(run), strict=True)))
        if run.taken < limit:
            break
    return total


def _load(records: list[UsageRecord], now: datetime) -> _World:
    held = locks.credit_leases(lease_id for record in records for lease_id in record.lease_ids)
    organization_ids = {record.organization_id for record in records}
    providers = unposted.providers(record.provider_id for record in records)
    return _World(
        leases=held,
        promo=unposted.promotional({lease.account_id for lease in held.values()}),
        budget_leases=locks.budget_leases(lease_id for record in records for lease_id in record.budget_lease_ids),
        providers=providers,
        organizations=unposted.organizations(organization_ids),
        tiers=risk.tiers_of(organization_ids=organization_ids),
        bonds=related.bonds_among(
            customers=organization_ids, earners={provider.organization_id for provider in providers.values()}
        ),
        standings=provider_tiers.standings(providers.values(), now=now),
    )


def _refusals(records: list[UsageRecord], world: _World) -> dict[RecordKey, str]:
    """Return why records cannot be booked, by a stable code."""
    reasons = {unposted.key_of(record): _reason(record, world) for record in records}
    return {key: code for key, code in reasons.items() if code}


def _reason(record: UsageRecord, world: _World) -> str:
    if record.provider_id not in world.providers:
        return "provider_missing"
    if not world.leases.keys() >= set(record.lease_ids):
        return "lease_missing"
    if {world.leases[lease_id].organization_id for lease_id in record.lease_ids} != {record.organization_id}:
        return "lease_of_another_organization"
    if not world.budget_leases.keys() >= set(record.budget_lease_ids):
        return "budget_lease_missing"
    return ""


def _book(records: list[UsageRecord], world: _World, now: datetime) -> Posted:
    lines = [_line(record, world) for record in records if record.charge_nano > 0]
    planned = batches.gather(lines)
    accounts = _lock_in_order(planned, world)
    _lower_leases(records, world)
    _write(planned, _Purse(accounts, world), now)
    earned = {line.key: int(line.split.provider_nano) for line in lines}
    withheld = {line.key for line in lines if line.split.withheld}
    rollups.add(
        rollups.Counted(record, earned.get(key, 0), is_withheld=key in withheld)
        for record in records
        for key in [unposted.key_of(record)]
    )
    return Posted(
        transactions=len(planned),
        charged_nano=sum(batch.charge_nano for batch in planned),
        earned_nano=sum(earned.values()),
    )


def _line(record: UsageRecord, world: _World) -> Line:
    provider = world.providers[record.provider_id]
    return Line(
        key=unposted.key_of(record),
        payers=_payers(record, world),
        organization_id=record.organization_id,
        provider_id=record.provider_id,
        charge_nano=record.charge_nano,
        split=parties.split(
            charge_nano=record.charge_nano,
            provider_nano=record.provider_nano,
            payer=_payer(record, world),
            earner=parties.Earner(
                organization_id=provider.organization_id, is_house=provider.kind == ProviderKind.HOUSE
            ),
        ),
        closed_at=record.closed_at,
    )


def _payer(record: UsageRecord, world: _World) -> parties.Payer:
    paying = zip(record.lease_ids, record.lease_charges, strict=True)
    return parties.Payer(
        organization_id=record.organization_id,
        bond=_bond(record.organization_id, record.provider_id, world),
        has_promo=any(nano and world.leases[lease_id].account_id in world.promo for lease_id, nano in paying),
    )


def _bond(organization_id: int, provider_id: int, world: _World) -> Bond:
    earner = world.providers[provider_id].organization_id
    return world.bonds.get(related.ordered(organization_id, earner), Bond.NONE)


def _payers(record: UsageRecord, world: _World) -> tuple[tuple[int, int], ...]:
    """Return the accounts that pay, in the order of the record's leases; one may have lent by several of them."""
    paid: dict[int, int] = {}
    for lease_id, nano in zip(record.lease_ids, record.lease_charges, strict=True):
        if nano:
            account_id = world.leases[lease_id].account_id
            paid[account_id] = paid.get(account_id, 0) + nano
    return tuple(paid.items())


def _lock_in_order(planned: list[Batch], world: _World) -> dict[str, LedgerAccount]:
    """Take all further locks of this run: the budgets' windows, then the accounts by id; return those by code."""
    locks.budget_windows(lease.window_id for lease in world.budget_leases.values())
    wanted = {(Kind.CUSTOMER_RECEIVABLE, world.organizations[batch.organization_id]) for batch in planned}
    wanted |= {_earner(world.providers[batch.provider_id]) for batch in planned}
    wanted |= {(Kind.PLATFORM_REVENUE, "")} if planned else set()
    opened = ledger.accounts(wanted, currency=settings.CURRENCY)
    locks.accounts([*(row.pk for row in opened.values()), *(payer for batch in planned for payer, _ in batch.payers)])
    return opened


def _earner(provider: Provider) -> tuple[Kind, str]:
    """Return the account that takes what the provider earns: held back until the provider is identified."""
    is_held = not provider.is_identified and provider.kind != ProviderKind.HOUSE
    return (Kind.PROVIDER_HELD if is_held else Kind.PROVIDER_PENDING), provider.public_id


def _lower_leases(records: Iterable[UsageRecord], world: _World) -> None:
    """Take the charges off their leases as far as those reach; beyond them the posting itself finds who pays."""
    credit: Counter[int] = Counter()
    budget: Counter[int] = Counter()
    for record in records:
        credit.update(dict(zip(record.lease_ids, record.lease_charges, strict=True)))
        budget.update(dict(zip(record.budget_lease_ids, record.budget_charges, strict=True)))
    for lease_id, charge in sorted(credit.items()):
        covered = min(charge, _left(world.leases[lease_id]))
        if covered:
            leases.LIFE.charge(lease_id=lease_id, charge_nano=covered)
    for lease_id, charge in sorted(budget.items()):
        lease = world.budget_leases[lease_id]
        covered = min(charge, _left(lease))
        if covered:
            budgets.LIFE.charge(lease_id=lease_id, charge_nano=covered)
        if charge > covered:
            BudgetWindow.objects.filter(pk=lease.window_id).update(used_nano=F("used_nano") + charge - covered)


def _left(lease: CreditLease | BudgetLease) -> int:
    return 0 if lease.state == LeaseState.CLOSED else lease.granted - lease.used


class _Purse:
    """Who pays and who is paid, with what each payer has left while the run goes on; all its accounts are locked."""

    def __init__(self, accounts: dict[str, LedgerAccount], world: _World) -> None:
        self.accounts = accounts
        self.world = world
        self.holds = customer_risk.holds()
        self.payers = LedgerAccount.objects.in_bulk(lease.account_id for lease in world.leases.values())
        self.free = {pk: balances.free_of(row) for pk, row in self.payers.items()}

    def transfers(self, batch: Batch) -> list[ledger.Transfer]:
        """Charge the leased accounts as far as they are free of other holds; the rest becomes the customer's debt."""
        paid = [(self.payers[account_id], self._take(account_id, nano)) for account_id, nano in batch.payers]
        debt = self._account(Kind.CUSTOMER_RECEIVABLE, self.world.organizations[batch.organization_id])
        return templates.usage(
            payers=[*paid, (debt, batch.charge_nano - sum(nano for _, nano in paid))],
            provider_nano=batch.provider_nano,
            pending=self._account(*_earner(self.world.providers[batch.provider_id])),
            revenue=self._account(Kind.PLATFORM_REVENUE, ""),
        )

    def facts(self, batch: Batch) -> maturity.CustomerFacts:
        """Return what is known of the money behind the batch."""
        return maturity.CustomerFacts(
            is_promo=all(self.payers[payer].kind == Kind.PROMO_CREDIT for payer, _ in batch.payers),
            hold_days=self._customer_days(batch),
        )

    def _customer_days(self, batch: Batch) -> int:
        """Return how long the customer's tier asks for; who is linked to the provider is as good as new."""
        if _bond(batch.organization_id, batch.provider_id, self.world) is Bond.LINKED:
            return self.holds.days(Tier.NEW)
        return self.holds.days(self.world.tiers.get(batch.organization_id, ""))

    def hold_days(self, batch: Batch) -> int:
        """Return how long the batch's provider waits, by its trust tier."""
        return self.world.standings[self.world.providers[batch.provider_id].public_id].hold_days

    def _take(self, account_id: int, nano: int) -> int:
        covered = max(0, min(nano, self.free[account_id]))
        self.free[account_id] -= covered
        return covered

    def _account(self, kind: Kind, owner: str) -> LedgerAccount:
        return self.accounts[chart.code(kind, owner)]


def _write(planned: list[Batch], purse: _Purse, now: datetime) -> None:
    entries = [_entry(batch, purse.transfers(batch)) for batch in planned]
    posted = list(zip(planned, ledger.post_all(entries, actor=SYSTEM_ACTOR, now=now), strict=True))
    UsagePosting.objects.bulk_create(_posting(line, tx) for batch, tx in posted for line in batch.lines)
    earned = [(batch, tx) for batch, tx in posted if batch.provider_nano]
    EarningMaturity.objects.bulk_create(
        EarningMaturity(tx=tx, **_earning(batch, purse)) for batch, tx in earned if not _is_held(batch, purse)
    )
    HeldEarning.objects.bulk_create(
        HeldEarning(tx=tx, held_at=now, **_earning(batch, purse)) for batch, tx in earned if _is_held(batch, purse)
    )


def _is_held(batch: Batch, purse: _Purse) -> bool:
    return _earner(purse.world.providers[batch.provider_id])[0] == Kind.PROVIDER_HELD


def _earning(batch: Batch, purse: _Purse) -> dict[str, Any]:
    return {
        "provider": purse.world.providers[batch.provider_id].public_id,
        "amount_nano": batch.provider_nano,
        "matures_at": maturity.matures_at(
            delivered_at=batch.delivered_at, hold_days=purse.hold_days(batch), facts=purse.facts(batch)
        ),
    }


def _entry(batch: Batch, transfers: list[ledger.Transfer]) -> ledger.Entry:
    return ledger.Entry(
        kind="usage",
        key=f"usage:{batch.digest}",
        source_type="usage_batch",
        source_id=batch.digest,
        transfers=transfers,
        effective_at=batch.delivered_at,
        note=f"{len(batch.lines)} requests",
    )


def _posting(line: Line, tx: LedgerTx) -> UsagePosting:
    opened_on, request_id, attempt = line.key
    return UsagePosting(
        opened_on=opened_on,
        request_id=request_id,
        attempt=attempt,
        tx=tx,
        charge_nano=line.charge_nano,
        provider_nano=line.split.provider_nano,
        withheld=line.split.withheld,
    )


def _set_aside(refused: dict[RecordKey, str], now: datetime) -> None:
    retry_at = now + RETRY_AFTER
    for (opened_on, request_id, attempt), code in refused.items():
        UnpostableUsage.objects.update_or_create(
            opened_on=opened_on,
            request_id=request_id,
            attempt=attempt,
            defaults={"code": code, "retry_at": retry_at},
            create_defaults={"code": code, "retry_at": retry_at, "first_seen_at": now},
        )


def _finish(tickets: list[UsageQueue], refused: dict[RecordKey, str]) -> None:
    done = [ticket for ticket in tickets if unposted.key_of(ticket) not in refused]
    UsageQueue.objects.filter(pk__in=[ticket.pk for ticket in done]).delete()
    unposted.set_aside(unposted.key_of(ticket) for ticket in done).delete()
