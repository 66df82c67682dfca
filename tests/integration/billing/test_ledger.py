"""The ledger: what it writes, what it refuses, and that a refusal changes nothing."""

import pytest
from django.db import IntegrityError, connection, transaction

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing import errors
from portal.billing.models import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger, templates

pytestmark = pytest.mark.django_db


def entry(transfers, now, key="test:1", **changes):
    given = {
        "kind": "test",
        "key": key,
        "source_type": "test",
        "source_id": "1",
        "transfers": transfers,
        "actor": SYSTEM_ACTOR,
        "now": now,
    }
    return ledger.post(**given | changes)


def credit(owner="org_a", currency="usd"):
    return ledger.account(Kind.CUSTOMER_CREDIT, owner, currency=currency)


def bank(currency="usd"):
    return ledger.account(Kind.STRIPE_BALANCE, currency=currency)


def test_an_account_is_opened_once_with_the_rules_of_its_kind():
    opened = credit()

    again = credit()

    assert again.pk == opened.pk
    assert (opened.code, opened.is_debit_normal, opened.has_floor, opened.keeps_totals) == (
        "customer_credit:org_a",
        False,
        True,
        True,
    )
    assert (bank().code, bank().is_debit_normal, bank().has_floor, bank().keeps_totals) == (
        "stripe_balance",
        True,
        False,
        False,
    )


def test_an_account_has_one_currency():
    credit(currency="usd")

    with pytest.raises(errors.CurrencyMismatch):
        credit(currency="eur")


def test_posting_moves_the_amount_from_one_side_to_the_other(now):
    tx = entry([ledger.Transfer(bank(), credit(), 700)], now)

    assert ledger.balance(credit()) == 700
    assert ledger.balance(bank()) == 700
    assert list(tx.transfers.values_list("seq", "amount", "currency")) == [(0, 700, "usd")]
    assert tx.effective_at == now


def test_a_replay_returns_the_stored_transaction_and_changes_nothing(now):
    transfers = [ledger.Transfer(bank(), credit(), 700)]
    first = entry(transfers, now)

    second = entry(transfers, now, note="told again")

    assert second.pk == first.pk
    assert LedgerTransfer.objects.count() == 1
    assert ledger.balance(credit()) == 700


@pytest.mark.parametrize("changes", [{"kind": "other"}, {"source_id": "2"}, {"source_type": "other"}])
def test_a_key_cannot_stand_for_two_events(now, changes):
    transfers = [ledger.Transfer(bank(), credit(), 700)]
    entry(transfers, now)

    with pytest.raises(errors.KeyReused):
        entry(transfers, now, **changes)

    assert ledger.balance(credit()) == 700


def test_a_key_cannot_stand_for_another_amount(now):
    entry([ledger.Transfer(bank(), credit(), 700)], now)

    with pytest.raises(errors.KeyReused):
        entry([ledger.Transfer(bank(), credit(), 701)], now)

    assert ledger.balance(credit()) == 700


@pytest.mark.parametrize("amount", [0, -5])
def test_amounts_are_positive(now, amount):
    with pytest.raises(errors.UnsoundTransfer):
        entry([ledger.Transfer(bank(), credit(), amount)], now)

    assert not LedgerTx.objects.exists()


def test_a_transaction_is_not_empty(now):
    with pytest.raises(errors.UnsoundTransfer):
        entry([], now)

    assert not LedgerTx.objects.exists()


def test_the_two_sides_differ(now):
    with pytest.raises(errors.UnsoundTransfer):
        entry([ledger.Transfer(credit(), credit(), 1)], now)

    assert not LedgerTx.objects.exists()


def test_the_two_sides_share_a_currency(now):
    with pytest.raises(errors.UnsoundTransfer):
        entry([ledger.Transfer(bank(), credit(currency="eur"), 1)], now)

    assert not LedgerTx.objects.exists()


def test_the_database_itself_refuses_two_currencies(now):
    tx = entry([ledger.Transfer(bank(), credit(), 1)], now)

    with pytest.raises(IntegrityError, match="ledger_credit_currency"), transaction.atomic():
        LedgerTransfer.objects.create(
            tx=tx,
            seq=9,
            effective_at=now,
            debit_account=bank(),
            credit_account=credit("org_b", "eur"),
            amount=1,
            currency="usd",
        )


def test_an_account_cannot_fall_below_zero(now):
    entry([ledger.Transfer(bank(), credit(), 700)], now)

    with pytest.raises(errors.BelowFloor, match="customer_credit:org_a"):
        entry([ledger.Transfer(credit(), bank(), 701)], now, key="test:2")

    assert ledger.balance(credit()) == 700
    assert not LedgerTx.objects.filter(idempotency_key="test:2").exists()


def test_a_debit_normal_account_has_the_same_floor(now):
    receivable = ledger.account(Kind.CUSTOMER_RECEIVABLE, "org_a", currency="usd")
    entry([ledger.Transfer(receivable, bank(), 5)], now)

    with pytest.raises(errors.BelowFloor):
        entry([ledger.Transfer(bank(), receivable, 6)], now, key="test:2")

    assert ledger.balance(receivable) == 5


def test_what_is_held_cannot_be_spent_by_others(now):
    entry([ledger.Transfer(bank(), credit(), 700)], now)
    ledger.hold(credit().pk, 600)

    with pytest.raises(errors.BelowFloor):
        entry([ledger.Transfer(credit(), bank(), 101)], now, key="test:2")
    entry([ledger.Transfer(credit(), bank(), 100)], now, key="test:3")

    assert ledger.balance(credit()) == 600
    assert balances.free_of(credit()) == 0


def test_another_broken_constraint_is_not_taken_for_the_floor(now):
    entry([ledger.Transfer(bank(), credit(), 2**62)], now)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE billing_ledgeraccount ADD CONSTRAINT test_ceiling CHECK (credits <= {2**62})")

    with pytest.raises(IntegrityError, match="test_ceiling"):
        entry([ledger.Transfer(bank(), credit(), 1)], now, key="test:2")

    assert ledger.balance(credit()) == 2**62


def test_a_hold_needs_free_credit(now):
    entry([ledger.Transfer(bank(), credit(), 700)], now)
    ledger.hold(credit().pk, 600)

    with pytest.raises(errors.InsufficientCredit):
        ledger.hold(credit().pk, 101)

    assert LedgerAccount.objects.get(code="customer_credit:org_a").held == 600


def test_no_more_is_released_than_was_held(now):
    entry([ledger.Transfer(bank(), credit(), 700)], now)
    ledger.hold(credit().pk, 600)
    ledger.unhold(credit().pk, 599)

    with pytest.raises(errors.HoldTooSmall):
        ledger.unhold(credit().pk, 2)

    assert LedgerAccount.objects.get(code="customer_credit:org_a").held == 1


@pytest.mark.parametrize("move", [ledger.hold, ledger.unhold])
def test_holds_are_positive(move):
    with pytest.raises(errors.UnsoundTransfer):
        move(credit().pk, 0)


def test_a_reversal_names_its_transaction_and_mirrors_it(now):
    tx = entry([ledger.Transfer(bank(), credit(), 700)], now)

    mirror = ledger.reverse(tx=tx, reason="booked twice", actor=SYSTEM_ACTOR, now=now)

    assert mirror.reverses_id == tx.pk
    assert mirror.note == "booked twice"
    assert (ledger.balance(credit()), ledger.balance(bank())) == (0, 0)
    assert AuditEvent.objects.get(event="ledger.reversed").subject == str(tx.pk)


def test_a_transaction_is_reversed_once(now):
    tx = entry([ledger.Transfer(bank(), credit(), 700)], now)
    mirror = ledger.reverse(tx=tx, reason="booked twice", actor=SYSTEM_ACTOR, now=now)

    assert ledger.reverse(tx=tx, reason="again", actor=SYSTEM_ACTOR, now=now).pk == mirror.pk
    with pytest.raises(errors.NotReversible):
        ledger.reverse(tx=mirror, reason="undo the undo", actor=SYSTEM_ACTOR, now=now)

    assert ledger.balance(credit()) == 0


def test_what_was_spent_cannot_be_reversed(now):
    tx = entry([ledger.Transfer(bank(), credit(), 700)], now)
    entry([ledger.Transfer(credit(), bank(), 1)], now, key="test:2")

    with pytest.raises(errors.BelowFloor):
        ledger.reverse(tx=tx, reason="too late", actor=SYSTEM_ACTOR, now=now)

    assert ledger.balance(credit()) == 699
    assert not AuditEvent.objects.filter(event="ledger.reversed").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_ledgertx SET note = 'x'",
        "DELETE FROM billing_ledgertx",
        "UPDATE billing_ledgertransfer SET amount = amount + 1",
        "DELETE FROM billing_ledgertransfer",
    ],
)
def test_history_cannot_be_edited(now, statement):
    entry([ledger.Transfer(bank(), credit(), 700)], now)

    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)

    assert LedgerTransfer.objects.get().amount == 700


@pytest.mark.parametrize(
    "table",
    [
        "billing_ledgertx",
        "billing_ledgertransfer",
        "billing_usageposting",
        "billing_priceversion",
        "billing_shareversion",
        "billing_closedperiod",
        "billing_statement",
    ],
)
def test_history_cannot_be_emptied(table):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER append_only_table")
        with pytest.raises(IntegrityError, match="append-only"):
            cursor.execute(f"TRUNCATE {table} CASCADE")
        transaction.set_rollback(True)


def test_a_promotional_grant_is_an_expense_that_expires_as_breakage(now):
    entry(templates.promo_grant(organization="org_a", amount=50, currency="usd"), now)
    entry(templates.promo_expiry(organization="org_a", amount=20, currency="usd"), now, key="test:2")

    assert balances.customer_balance(organization="org_a") == balances.CustomerBalance(
        paid_nano=0, promo_nano=30, held_nano=0, debt_nano=0
    )
    assert ledger.balance(ledger.account(Kind.PROMO_EXPENSE, currency="usd")) == 50
    assert ledger.balance(ledger.account(Kind.BREAKAGE, currency="usd")) == 20
