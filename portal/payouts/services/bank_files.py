"""Takes approved bank transfers out as the file that the operator's bank reads; who took them is kept."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.audit.services import Actor
from portal.billing.rules.export import csv_text
from portal.core.errors import InvalidValue
from portal.payouts.models import BankAccount, BankAccountState, Payout
from portal.payouts.rules import bank_files as rules
from portal.payouts.rules.bank_files import Order, Payer
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import bank_accounts, manual


class NothingToPay(InvalidValue):
    """No bank transfer is approved and still to be made."""

    code = "nothing_to_pay"


class NotSepa(InvalidValue):
    """The transfers, or the pool's own account, are not what SEPA carries."""

    code = "not_sepa"


def table(*, actor: Actor, now: datetime) -> str:
    """Return the approved bank transfers as CSV. Raises NothingToPay."""
    return csv_text(header=rules.HEADER, rows=[rules.row(order) for order in _orders("csv", actor, now)])


def sepa(*, actor: Actor, now: datetime) -> bytes:
    """Return the approved bank transfers as one pain.001 order. Raises NothingToPay, NotSepa."""
    if not settings.PAYOUT_BANK_IBAN:
        raise NotSepa("the pool's own IBAN is not set", fix="set PAYOUT_BANK_NAME and PAYOUT_BANK_IBAN")
    payer = Payer(settings.PAYOUT_BANK_NAME or settings.POOL_NAME, settings.PAYOUT_BANK_IBAN, settings.PAYOUT_BANK_BIC)
    try:
        with transaction.atomic():
            orders = _orders("pain.001", actor, now)
            return rules.pain_001(orders, payer=payer, message_id=f"{now:%Y%m%d%H%M%S}", now=now)
    except ValueError as error:
        raise NotSepa(str(error), fix="use the table for this run") from error


def _orders(kind: str, actor: Actor, now: datetime) -> list[Order]:
    payouts = list(selectors.manual_to_send())
    accounts = BankAccount.objects.filter(public_id__in=[one.destination for one in payouts])
    good = {row.public_id: row for row in accounts if row.state == BankAccountState.VERIFIED}
    ready = [one for one in payouts if one.destination in good]
    if not ready:
        raise NothingToPay("no bank transfer is approved and still to be made", fix="approve payouts first")
    with transaction.atomic():
        manual.record_export(payouts=ready, kind=kind, actor=actor, now=now)
    return [_order(one, good) for one in ready]


def _order(payout: Payout, accounts: dict[str, BankAccount]) -> Order:
    row = accounts[payout.destination]
    details = bank_accounts.details_of(row)
    return Order(
        payout=payout.public_id,
        holder=row.holder,
        scheme=details.scheme,
        account=details.account,
        bank=details.bank,
        country=details.country,
        amount_minor=payout.amount_minor,
        currency=payout.currency,
        reference=f"{settings.POOL_NAME} {payout.public_id}",
    )
