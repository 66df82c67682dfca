"""Takes what a provider owes from what has become available to it, as a posting of its own."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing import locks
from portal.billing.models import LedgerAccount
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger, templates


def net_debt(*, provider: str, cause: str, now: datetime) -> int:
    """Pay the provider's debt as far as its available balance reaches; return how much, in nano units.

    `cause` names the event that made money available (a row's id): the same cause nets once.
    """
    code = chart.code(Kind.PROVIDER_RECEIVABLE, provider)
    debt = LedgerAccount.objects.filter(code=code).first()
    if debt is None or balances.balance_of(debt) <= 0:
        return 0
    with transaction.atomic():
        available = ledger.account(Kind.PROVIDER_AVAILABLE, provider, currency=settings.CURRENCY)
        locked = locks.accounts([available.pk, debt.pk])
        amount = min(balances.free_of(locked[available.pk]), balances.balance_of(locked[debt.pk]))
        if amount <= 0:
            return 0
        ledger.post(
            kind="debt_netted",
            key=f"debt-netted:{cause}",
            source_type="netting",
            source_id=cause,
            transfers=templates.debt_netted(provider=provider, amount=amount, currency=settings.CURRENCY),
            actor=SYSTEM_ACTOR,
            now=now,
        )
    return amount
