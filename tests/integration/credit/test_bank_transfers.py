"""Customers' bank transfers: booked once by the bank's reference, large ones by two, taken back by a posting."""

from datetime import date

import pytest

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import BankTransfer, LedgerTx
from portal.billing.services import bank_transfers
from portal.billing.services.bank_transfers import Line, ReferenceKnown, SecondPersonNeeded, TransferMoveRefused
from portal.core.errors import InvalidValue
from tests.factories.accounts import OrganizationFactory, UserFactory
from tests.factories.payouts import balance_of
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db

CENT = 10_000_000


@pytest.fixture
def operators():
    return [UserFactory(is_operator=True) for _ in range(2)]


def enter(organization, operator, now, **changes):
    line = {"reference": "BANK-1", "amount_minor": 5000, "received_on": date(2026, 11, 1), "payer": "ACME GMBH"}
    return bank_transfers.enter(
        organization=organization, line=Line(**(line | changes)), operator=operator, actor=SYSTEM_ACTOR, now=now
    )


def books(organization):
    return balance_of("customer_credit", organization.public_id) // CENT, balance_of("bank_balance") // CENT


def test_a_small_transfer_is_credit_at_once_and_once(operators, now):
    organization = OrganizationFactory()

    first, second = (enter(organization, operators[0], now) for _ in range(2))

    assert (first.pk, first.state) == (second.pk, "booked")
    assert books(organization) == (5000, 5000)
    assert AuditEvent.objects.filter(event="bank_transfer.booked").count() == 1


@pytest.mark.parametrize("changes", [{"amount_minor": 5001}, {"other": True}])
def test_a_reference_stands_for_one_transfer(operators, now, changes):
    organization = OrganizationFactory()
    enter(organization, operators[0], now)
    whose = OrganizationFactory() if changes.pop("other", False) else organization

    with pytest.raises(ReferenceKnown):
        enter(whose, operators[0], now, **changes)

    assert (BankTransfer.objects.count(), balance_of("bank_balance")) == (1, 5000 * CENT)


@pytest.mark.parametrize("why", ["large", "two approvers"])
def test_a_second_operator_confirms(operators, now, settings, why):
    settings.PAYOUT_APPROVERS = 2 if why == "two approvers" else 1
    settings.BANK_TRANSFER_SECOND_FROM_MINOR = 5000 if why == "large" else 10**9
    organization = OrganizationFactory()
    entered = enter(organization, operators[0], now)
    assert (entered.state, books(organization)) == ("entered", (0, 0))

    with pytest.raises(SecondPersonNeeded):
        bank_transfers.confirm(public_id=entered.public_id, operator=operators[0], actor=SYSTEM_ACTOR, now=now)
    assert books(organization) == (0, 0)
    for _ in range(2):
        done = bank_transfers.confirm(public_id=entered.public_id, operator=operators[1], actor=SYSTEM_ACTOR, now=now)

    assert (done.state, done.confirmed_by, books(organization)) == ("booked", operators[1], (5000, 5000))
    assert LedgerTx.objects.filter(kind="bank_credit").count() == 1


def test_a_refused_transfer_moves_nothing_and_may_be_entered_again(operators, now, settings):
    settings.PAYOUT_APPROVERS = 2
    organization = OrganizationFactory()
    entered = enter(organization, operators[0], now)
    bank_transfers.refuse(public_id=entered.public_id, reason="not ours", actor=SYSTEM_ACTOR, now=now)

    with pytest.raises(TransferMoveRefused):
        bank_transfers.confirm(public_id=entered.public_id, operator=operators[1], actor=SYSTEM_ACTOR, now=now)

    again = enter(organization, operators[0], now)
    assert (again.state, again.pk != entered.pk, books(organization)) == ("entered", True, (0, 0))


@pytest.mark.parametrize(("spent", "debt"), [(0, 0), (1500, 1500), (5000, 5000)])
def test_what_is_taken_back_and_was_spent_is_owed(operators, now, spent, debt):
    organization = OrganizationFactory()
    entered = enter(organization, operators[0], now)
    if spent:
        saving.spend(organization, minor=spent, now=now, key="1")

    for _ in range(2):
        done = bank_transfers.reverse(
            public_id=entered.public_id, reason="the bank took it back", actor=SYSTEM_ACTOR, now=now
        )

    assert (done.state, books(organization)) == ("reversed", (0, 0))
    assert balance_of("customer_receivable", organization.public_id) == debt * CENT
    assert AuditEvent.objects.get(event="bank_transfer.reversed").detail["reason"] == "the bank took it back"


def test_open_debt_is_paid_first(operators, now):
    organization = OrganizationFactory()
    enter(organization, operators[0], now)
    saving.spend(organization, minor=5000, now=now, key="1")
    bank_transfers.reverse(public_id=BankTransfer.objects.get().public_id, reason="back", actor=SYSTEM_ACTOR, now=now)

    enter(organization, operators[0], now, reference="BANK-2", amount_minor=7000)

    assert balance_of("customer_receivable", organization.public_id) == 0
    assert books(organization) == (2000, 7000)


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"reference": " "}, "reference"),
        ({"payer": ""}, "payer"),
        ({"amount_minor": 0}, "amount"),
        ({"amount_minor": 10**12}, "amount"),
        ({"received_on": date(2026, 11, 3)}, "received_on"),
    ],
)
def test_a_line_that_cannot_be_is_refused_and_leaves_nothing(operators, now, changes, param):
    with pytest.raises(InvalidValue) as refusal:
        enter(OrganizationFactory(), operators[0], now, **changes)

    assert refusal.value.param == param
    assert (BankTransfer.objects.count(), LedgerTx.objects.count(), AuditEvent.objects.count()) == (0, 0, 0)
