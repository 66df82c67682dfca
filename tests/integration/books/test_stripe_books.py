"""Each line of Stripe's books is matched by one posting and back; what nothing explains is booked, or asked for."""

from datetime import timedelta

import pytest
from django.core import mail
from django.core.management import CommandError, call_command

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerCheck, LedgerDifference, LedgerTx, StripeMovement
from portal.billing.rules.accounts import Kind
from portal.billing.rules.stripe_kinds import Booking
from portal.billing.services import ledger, stripe_bookings, templates, topups
from portal.core.errors import InvalidValue
from portal.integrations import stripe
from portal.notifications.models import Message
from portal.payouts.selectors import stripe_books as selectors
from portal.payouts.services import bank, ledger_checks, sending, stripe_books
from tests.factories.accounts import UserFactory
from tests.factories.payouts import Shop, balance_of
from tests.factories.tax import StripeMovementFactory

pytestmark = pytest.mark.django_db
LATER = timedelta(hours=2)


def at_stripe() -> int:
    return sum(one.available_minor + one.pending_minor for one in stripe.payments().balances())


def codes(now) -> set[str]:
    return {one.code for one in ledger_checks.check(now=now).differences}


def sell(shop: Shop, now, *, amount: int = 5000) -> None:
    topup = shop.buy(amount=amount, now=now)
    topups.fulfil(topup_id=topup.pk, now=now)


def pay(shop: Shop, now, *, minor: int = 2550):
    provider = shop.provider(earned_minor=0, now=now)
    available = ledger.account(Kind.PROVIDER_AVAILABLE, provider.public_id, currency="usd")
    revenue = ledger.account(Kind.PLATFORM_REVENUE, currency="usd")
    ledger.post(
        kind="provider_credit",
        key=f"credit:{provider.public_id}",
        source_type="test",
        source_id="1",
        transfers=[ledger.Transfer(revenue, available, minor * 10_000_000)],
        actor=SYSTEM_ACTOR,
        now=now,
    )
    payout = shop.approved(provider, now=now)
    return sending.send(payout_id=payout.pk, now=now)


def test_the_whole_happy_path_is_matched_line_by_line(shop, now):
    sell(shop, now)
    shop.fund(10_000)
    payout = pay(shop, now)
    shop.double.control("reverse", transfer=payout.stripe_transfer, amount=550)
    bank.note_transfer(transfer=payout.stripe_transfer, now=now)
    shop.double.control("drain", leave=2000)

    done = stripe_books.sync(now=now)

    owners = dict(StripeMovement.objects.values_list("type", "source_type"))
    assert owners == {
        "charge": "topup",
        "transfer": "payout",
        "transfer_refund": "payout",
        "topup": "stripe_movement",
        "payout": "stripe_movement",
    }
    assert (done.new, done.matched, done.booked) == (5, 3, 2)
    assert selectors.gaps() == []
    assert balance_of(Kind.STRIPE_BALANCE) == at_stripe() * 10_000_000
    assert ledger_checks.check(now=now + LATER).differences == ()


def test_a_second_look_changes_nothing(shop, now):
    sell(shop, now)
    shop.fund(10_000)
    stripe_books.sync(now=now)
    before = (LedgerTx.objects.count(), StripeMovement.objects.count())

    done = stripe_books.sync(now=now + LATER)

    assert (done.new, done.matched, done.booked) == (0, 0, 0)
    assert (LedgerTx.objects.count(), StripeMovement.objects.count()) == before


def test_the_owners_withdrawal_and_deposit_are_booked_by_themselves(shop, now):
    shop.fund(10_000)
    shop.double.control("drain", leave=2500)

    stripe_books.sync(now=now)

    kinds = LedgerTx.objects.order_by("kind").values_list("kind", flat=True)
    assert list(kinds) == ["owner_deposit", "owner_withdrawal"]
    assert balance_of(Kind.OWNER_EQUITY) == 2500 * 10_000_000
    assert balance_of(Kind.STRIPE_BALANCE) == 2500 * 10_000_000


def test_what_lay_at_stripe_before_the_pool_is_the_owners(shop, now):
    shop.fund(700)
    shop.double.control("clock/advance", seconds=90 * 86_400)
    shop.fund(40)
    late = now + timedelta(days=365)  # the stand-in's clock is the machine's: nothing it has is younger than this

    stripe_books.sync(now=late)

    assert balance_of(Kind.OWNER_EQUITY) == 740 * 10_000_000
    assert codes(late) == set()


def test_a_purchase_that_nobody_fulfilled_is_found(shop, now):
    shop.buy(amount=5000, now=now)

    assert codes(now) == set()
    assert codes(now + LATER) == {"stripe_unmatched", "stripe_balance"}


def test_a_posting_that_stripe_does_not_have_is_found(shop, now):
    sell(shop, now)
    bank_account = ledger.account(Kind.STRIPE_BALANCE, currency="usd")
    credit = ledger.account(Kind.CUSTOMER_CREDIT, "org_ghost", currency="usd")
    ledger.post(
        kind="topup",
        key="topup:ghost",
        source_type="topup",
        source_id="topup_ghost",
        transfers=[ledger.Transfer(bank_account, credit, 10_000_000)],
        actor=SYSTEM_ACTOR,
        now=now,
    )

    found = {one.code: one for one in ledger_checks.check(now=now + LATER).differences}

    assert (found["stripe_differs"].subject, found["stripe_differs"].expected) == ("topup topup_ghost", "0")
    assert found["stripe_balance"].actual == str(at_stripe() * 10_000_000)


def test_a_refund_made_at_stripe_is_not_taken_for_its_purchase(shop, now):
    sell(shop, now)
    stripe_books.sync(now=now)
    charge = StripeMovement.objects.get(type="charge")
    row = StripeMovementFactory(type="refund", amount_minor=-100, source="re_unknown", related=[charge.source])

    stripe_books.match()

    row.refresh_from_db()
    assert row.source_id == ""


def test_an_operator_says_what_an_unexplained_line_is(now):
    row = StripeMovementFactory(amount_minor=-1000)
    actor = SYSTEM_ACTOR

    with pytest.raises(InvalidValue):
        stripe_bookings.book(movement_id=row.pk, booking=Booking.OWNER_DEPOSIT, note="", actor=actor, now=now)
    assert not LedgerTx.objects.exists()

    stripe_bookings.book(
        movement_id=row.pk, booking=Booking.STRIPE_ADJUSTMENT, note="their mail of May", actor=actor, now=now
    )

    row.refresh_from_db()
    assert (row.source_type, row.source_id, row.tx.note) == ("stripe_movement", row.stripe_id, "their mail of May")
    assert balance_of(Kind.STRIPE_ADJUSTMENTS) == 1000 * 10_000_000
    assert AuditEvent.objects.get(event="stripe_movement.booked").detail["as"] == "stripe_adjustment"
    with pytest.raises(stripe_bookings.AlreadyMatched):
        stripe_bookings.book(movement_id=row.pk, booking=Booking.STRIPE_FEE, note="", actor=actor, now=now)


def test_a_withdrawal_with_a_fee_books_both(now):
    row = StripeMovementFactory(type="payout", amount_minor=-1000, fee_minor=15)

    stripe_bookings.book(movement_id=row.pk, booking=Booking.OWNER_WITHDRAWAL, note="", actor=SYSTEM_ACTOR, now=now)

    assert balance_of(Kind.OWNER_EQUITY) == -1000 * 10_000_000
    assert balance_of(Kind.STRIPE_FEES) == 15 * 10_000_000
    assert balance_of(Kind.STRIPE_BALANCE) == -1015 * 10_000_000


def test_a_difference_is_told_once_and_marked_gone(shop, now, django_capture_on_commit_callbacks):
    operator = UserFactory(is_operator=True)
    UserFactory()
    row = StripeMovementFactory(seen_at=now - LATER, net_minor=-1000)
    shop.fund(50)
    stripe_books.sync(now=now)

    ledger_checks.run(now=now)
    ledger_checks.run(now=now + timedelta(days=1))

    (message,) = Message.objects.all()
    assert (message.to, message.template) == (operator.email, "ledger_differences")
    assert "stripe_unmatched" in str(message.context)
    assert LedgerDifference.objects.filter(resolved_at=None).exists()
    assert LedgerCheck.objects.count() == 2

    StripeMovement.objects.filter(pk=row.pk).delete()
    ledger_checks.run(now=now + timedelta(days=2))
    assert not LedgerDifference.objects.filter(resolved_at=None).exists()
    assert Message.objects.count() == 1
    assert mail.outbox == []


def test_stripe_away_is_no_difference_and_resolves_none(shop, now):
    LedgerDifference.objects.create(
        code="stripe_unmatched", subject="x", expected="", actual="", first_seen_at=now, last_seen_at=now
    )
    shop.double.control("fail", kind="500", method="GET", path="/v1/balance", count=9)

    checked = ledger_checks.run(now=now)

    assert checked.differences == ()
    assert "Stripe could not be asked" in checked.stripe_problem
    assert LedgerDifference.objects.get().resolved_at is None


def test_the_command_ends_with_1_where_stripe_has_more(shop, capsys, now):
    StripeMovementFactory(seen_at=now - LATER)

    with pytest.raises(CommandError) as refusal:
        call_command("ledger_check", "--json")

    assert refusal.value.returncode == 1
    assert "stripe_unmatched" in capsys.readouterr().out


def test_a_fee_is_a_template_of_its_own():
    (part,) = templates.stripe_fee_returned(amount=5, currency="usd")

    assert (part.debit.kind, part.credit.kind) == (Kind.STRIPE_BALANCE, Kind.STRIPE_FEES)
