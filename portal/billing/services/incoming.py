"""Books money that came in for a customer, wherever it lies: debt first, then what was drawn, then credit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts.models import Organization
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import LedgerTx
from portal.billing.rules import incoming as rules
from portal.billing.rules.accounts import Kind
from portal.billing.rules.incoming import Owed
from portal.billing.selectors import balances
from portal.billing.services import credit_templates, ledger
from portal.integrations import bus

_OWED_KINDS = (Kind.CUSTOMER_RECEIVABLE, Kind.POSTPAID_LIMIT, Kind.POSTPAID_LINE)


@dataclass(frozen=True, slots=True)
class Money:
    """What came in: `net_nano` for the customer, `tax_nano` on top of it, lying in the account `into`."""

    net_nano: int
    currency: str
    into: Kind
    tax_nano: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """Which event of which row brought it; `key` makes it happen once."""

    kind: str
    key: str
    type: str
    id: str
    note: str = ""


def book(*, organization: Organization, money: Money, source: Source, actor: Actor, now: datetime) -> LedgerTx:
    """Post the money and tell everyone who waits for it. Raises KeyReused, UnsoundTransfer."""
    owner = organization.public_id
    with transaction.atomic():
        owed = _owed(owner, money)
        tx = ledger.post(
            kind=source.kind,
            key=source.key,
            source_type=source.type,
            source_id=source.id,
            transfers=_transfers(owner, money, owed),
            actor=actor,
            now=now,
            note=source.note,
        )
        bus.announce("leases", str(organization.pk))
        bus.announce("organizations", owner)
    return tx


def _transfers(owner: str, money: Money, owed: Owed) -> Sequence[ledger.Transfer]:
    return credit_templates.money_in(
        organization=owner,
        into=money.into,
        net=money.net_nano,
        tax=money.tax_nano,
        owed=owed,
        currency=money.currency,
    )


def _owed(owner: str, money: Money) -> Owed:
    """Return what the money pays first, with the accounts that say so locked until the posting commits."""
    ledger.account(Kind.CUSTOMER_RECEIVABLE, owner, currency=money.currency)
    locked = locks.accounts(balances.account_ids(owner=owner, kinds=_OWED_KINDS))
    standing = balances.standing_of(locked.values())
    return rules.owed_of(net_nano=money.net_nano, debt_nano=standing.debt_nano, drawn_nano=standing.drawn_nano)
