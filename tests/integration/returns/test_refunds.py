"""Unused credit goes back to the card that paid, once, whatever Stripe answers; it is shown as done when it is."""

from datetime import timedelta

import pytest

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import Refund
from portal.billing.rules.refunds import RefundMoveRefused
from portal.billing.selectors import refunds as selectors
from portal.billing.services import (
    grants,
    maturity,
    posting,
    reconcile,
    refund_moves,
    refund_reading,
    refund_sending,
    refunds,
)
from tests.factories.billing import Market
from tests.factories.payouts import balance_of
from tests.integration.returns.till import books_differ_by, paid, refunds_at, spend, standing

pytestmark = pytest.mark.django_db
OPERATOR = Actor(public_id="user_operator")


def asked(topup, now, *, amount=2000) -> Refund:
    """Return a refund that a customer asked for."""
    return refunds.ask(
        organization=topup.organization,
        topup_public_id=topup.public_id,
        amount_minor=amount,
        note="not needed",
        actor=SYSTEM_ACTOR,
        now=now,
    )


def approved(topup, now, *, amount=2000) -> Refund:
    """Return a refund that may be sent."""
    return refunds.approve(refund_public_id=asked(topup, now, amount=amount).public_id, actor=OPERATOR, now=now)


def sent(topup, now, *, amount=2000) -> Refund:
    """Return a refund as it is after it was sent."""
    return refund_sending.send(refund_id=approved(topup, now, amount=amount).pk, now=now)


def test_a_wish_sets_the_money_aside_and_waits_for_the_operator(shop, now):
    topup = paid(shop, amount=5000, now=now)

    refund = asked(topup, now)

    assert (refund.state, standing(topup)) == ("requested", (3000, 0, 2000))
    assert refunds_at(shop, topup) == []
    assert list(selectors.waiting()) == [refund]


def test_an_approved_refund_is_sent_once_and_the_books_agree(shop, now):
    topup = paid(shop, amount=5000, now=now)

    refund = sent(topup, now)
    again = refund_sending.send(refund_id=refund.pk, now=now)

    assert (refund.state, again.state, standing(topup)) == ("succeeded", "succeeded", (3000, 0, 0))
    assert [(one["amount"], one["id"]) for one in refunds_at(shop, topup)] == [(2000, refund.stripe_refund)]
    assert books_differ_by(topup) == 0
    assert reconcile.differences(now=now) == []


def test_where_the_pool_says_so_a_wish_goes_out_by_itself(shop, now, settings):
    settings.REFUNDS = "automatic"
    topup = paid(shop, amount=5000, now=now)

    refund = asked(topup, now)
    refund_reading.sweep(now=now)

    refund.refresh_from_db()
    assert refund.state == "succeeded"


def test_a_stopped_organization_waits_for_the_operator_even_there(shop, now, settings):
    settings.REFUNDS = "automatic"
    topup = paid(shop, amount=5000, now=now)
    topup.organization.stopped_for = "operator"
    topup.organization.save()

    assert asked(topup, now).state == "requested"


def test_a_refund_taken_back_is_credit_again(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = asked(topup, now)

    refunds.cancel(refund_public_id=refund.public_id, reason="changed my mind", actor=SYSTEM_ACTOR, now=now)

    refund.refresh_from_db()
    assert (refund.state, standing(topup)) == ("canceled", (5000, 0, 0))
    with pytest.raises(RefundMoveRefused):
        refunds.approve(refund_public_id=refund.public_id, actor=OPERATOR, now=now)


def test_what_is_with_stripe_cannot_be_taken_back(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = sent(topup, now)

    with pytest.raises(refunds.NotAnUnsentRefund):
        refunds.cancel(refund_public_id=refund.public_id, reason="too late", actor=SYSTEM_ACTOR, now=now)

    assert standing(topup) == (3000, 0, 0)


@pytest.mark.parametrize("amount", [0, -1, 3001, 5001])
def test_only_what_is_unspent_goes_back(shop, now, amount):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=2000, now=now)

    with pytest.raises(refunds.NotRefundable) as refusal:
        asked(topup, now, amount=amount)

    assert (refusal.value.code, standing(topup), Refund.objects.count()) == ("not_refundable", (3000, 0, 0), 0)


def test_promotional_credit_never_goes_back(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=4500, now=now)
    grants.grant_promo(
        organization=topup.organization, amount_nano=50 * 10**9, key="welcome", actor=SYSTEM_ACTOR, now=now
    )

    assert selectors.refundable(topup=topup) == 500


def test_refunds_in_parts_never_give_back_more_than_was_paid(shop, now):
    shop.fund(1000)
    topup = paid(shop, amount=5000, now=now)

    first, second, third = (sent(topup, now, amount=part) for part in (1000, 1500, 2500))

    assert {first.state, second.state, third.state} == {"succeeded"}
    assert (selectors.refundable(topup=topup), standing(topup), books_differ_by(topup)) == (0, (0, 0, 0), 1000)


def test_it_is_shown_as_done_only_when_stripe_says_so(shop, now):
    """A refund that Stripe has no money for stays pending, and nothing has left the balance."""
    topup = paid(shop, amount=5000, now=now)
    shop.double.control("clock/advance", seconds=3 * 86_400)
    shop.double.control("drain", leave=0)

    refund = sent(topup, now)

    assert (refund.state, refund.is_sent, standing(topup)) == ("pending", False, (3000, 0, 2000))
    shop.fund(10_000)
    shop.double.control("clock/advance", seconds=60)
    refund_reading.read(charge=topup.charge, now=now)
    refund.refresh_from_db()
    assert (refund.state, refund.is_sent, standing(topup)) == ("succeeded", True, (3000, 0, 0))


def test_a_refund_that_fails_after_it_succeeded_is_credit_again(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = sent(topup, now)

    shop.double.control("refund/end", refund=refund.stripe_refund, is_good=False)
    for _ in range(2):
        refund_reading.read(charge=topup.charge, now=now)

    refund.refresh_from_db()
    assert (refund.state, standing(topup), books_differ_by(topup)) == ("failed", (5000, 0, 0), 0)
    assert selectors.refundable(topup=topup) == 5000
    assert reconcile.differences(now=now) == []


def test_a_refusal_frees_the_money(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = approved(topup, now, amount=5000)
    shop.double.control("refund", charge=topup.charge, amount=1)

    after = refund_sending.send(refund_id=refund.pk, now=now)

    assert (after.state, after.state_reason.partition(":")[0]) == ("failed", "invalid_request_error")
    assert standing(topup) == (5000, 0, 0)


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        ("timeout", "before"),
        ("timeout", "after"),
        ("reset", "before"),
        ("reset", "after"),
        ("500", "after"),
        ("409", "before"),
    ],
)
def test_an_answer_that_nobody_has_is_looked_up_and_paid_once(shop, now, kind, when):
    topup = paid(shop, amount=5000, now=now)
    refund = approved(topup, now)
    shop.double.control("fail", path="/v1/refunds", kind=kind, when=when, count=3)

    first = refund_sending.send(refund_id=refund.pk, now=now)
    assert (first.state, standing(topup)) == ("unknown", (3000, 0, 2000))
    shop.double.store.rows("UPDATE faults SET remaining = 0")
    refund_reading.sweep(now=now + timedelta(minutes=1))

    refund.refresh_from_db()
    assert (refund.state, standing(topup), books_differ_by(topup)) == ("succeeded", (3000, 0, 0), 0)
    assert len(refunds_at(shop, topup)) == 1


def test_a_fault_that_stripe_keeps_under_the_key_ends_with_a_person(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = approved(topup, now)
    shop.double.control("fail", path="/v1/refunds", kind="500", when="before", count=1)
    refund_sending.send(refund_id=refund.pk, now=now)

    refund_reading.sweep(now=now + timedelta(hours=1))
    refund.refresh_from_db()
    assert (refund.state, refunds_at(shop, topup)) == ("unknown", [])
    refund_reading.sweep(now=now + timedelta(hours=20))

    refund.refresh_from_db()
    assert (refund.state, standing(topup)) == ("needs_review", (3000, 0, 2000))


def test_an_old_key_is_not_used_again_without_an_operator(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = approved(topup, now)
    shop.double.control("fail", path="/v1/refunds", kind="reset", when="before", count=3)
    refund_sending.send(refund_id=refund.pk, now=now)

    later = refund_sending.reconcile(refund_id=refund.pk, now=now + timedelta(hours=20))

    assert (later.state, refunds_at(shop, topup)) == ("needs_review", [])
    again = refund_sending.retry(refund_public_id=refund.public_id, actor=OPERATOR, now=now + timedelta(hours=21))
    assert refund_sending.send(refund_id=again.pk, now=now + timedelta(hours=21)).state == "succeeded"
    assert len(refunds_at(shop, topup)) == 1


def test_an_operator_may_give_up_what_stripe_does_not_have(shop, now):
    topup = paid(shop, amount=5000, now=now)
    refund = approved(topup, now)
    shop.double.control("fail", path="/v1/refunds", kind="reset", when="before", count=3)
    refund_sending.send(refund_id=refund.pk, now=now)
    refund_sending.reconcile(refund_id=refund.pk, now=now + timedelta(hours=20))

    refund_sending.give_up(refund_public_id=refund.public_id, reason="never made", actor=OPERATOR, now=now)

    refund.refresh_from_db()
    assert (refund.state, standing(topup)) == ("failed", (5000, 0, 0))
    assert AuditEvent.objects.filter(subject=refund.public_id, event="refund.failed", actor="user_operator").exists()


def test_no_money_at_stripe_means_later_under_a_new_key(shop, now):
    topup = paid(shop, amount=5000, now=now)
    shop.double.control("clock/advance", seconds=3 * 86_400)
    shop.double.control("platform", refund_shortage="refuse")
    shop.double.control("drain", leave=0)

    refund = sent(topup, now)
    assert (refund.state, standing(topup)) == ("reserved", (3000, 0, 2000))
    shop.fund(10_000)
    refund_reading.sweep(now=now + timedelta(minutes=9))
    refund.refresh_from_db()
    assert refund.state == "reserved"
    refund_reading.sweep(now=now + timedelta(minutes=11))

    refund.refresh_from_db()
    assert (refund.state, refund.attempts.count(), len(refunds_at(shop, topup))) == ("succeeded", 2, 1)


def test_already_done_is_done(shop, now):
    """Stripe refuses because our own earlier call, whose answer was lost, gave everything back."""
    shop.fund(1000)
    topup = paid(shop, amount=5000, now=now)
    refund = approved(topup, now, amount=5000)
    shop.double.control("fail", path="/v1/refunds", kind="reset", when="after", count=3)
    refund_sending.send(refund_id=refund.pk, now=now)
    shop.double.store.rows("UPDATE faults SET remaining = 0")
    Refund.objects.update(state="reserved")
    refund_moves.add_attempt(refund, number=2, now=now)

    again = refund_sending.send(refund_id=refund.pk, now=now)

    assert (again.state, len(refunds_at(shop, topup)), standing(topup)) == ("succeeded", 1, (0, 0, 0))


def test_a_refund_takes_nothing_from_providers(shop, now, settings):
    """The compute was delivered: what was earned from the used part stays."""
    settings.CUSTOMER_NEW_HOLD_DAYS = settings.PAYOUT_HOLD_DAYS = settings.PAYOUT_RESERVE_DAYS = 0
    topup = paid(shop, amount=5000, now=now)
    market = Market(customer=topup.organization, paid_nano=0)
    market.serve(closed_at=now)
    posting.post_usage(now=now)
    maturity.mature(now=now)
    before = balance_of("provider_available", market.provider.public_id)

    sent(topup, now, amount=3000)

    assert before == balance_of("provider_available", market.provider.public_id) == 480_000
    assert reconcile.differences(now=now) == []
