"""Disputes move what Stripe's own lines say, each once; spending stops meanwhile; what is lost becomes bad debt."""

from datetime import timedelta

import pytest

from portal.accounts.models import Organization
from portal.accounts.selectors import for_gateway
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import CustomerRisk, Dispute, DisputeMovement, EarningMaturity, ForeignCharge, SpendingStop
from portal.billing.selectors import refunds as refund_selectors
from portal.billing.services import (
    dispute_evidence,
    disputes,
    grants,
    posting,
    reconcile,
    refund_reading,
    refunds,
    risk,
    stops,
    topups,
)
from portal.core import clock
from portal.webhooks.models import StripeEvent
from portal.webhooks.services import dispatch
from tests.factories.accounts import MembershipFactory
from tests.factories.billing import DELIVERED, Market
from tests.factories.payouts import balance_of
from tests.integration.returns.till import books_differ_by, paid, spend, standing

pytestmark = pytest.mark.django_db
OPERATOR = Actor(public_id="user_operator", address="192.0.2.7")


def disputed(shop, topup, now, **more) -> Dispute:
    """Return the dispute of the purchase as it is after it was read."""
    made = shop.double.control("dispute", charge=topup.charge, **more)
    found = disputes.read(dispute=made["id"], now=now)
    assert found is not None
    return found


def ended(shop, row, now, *, is_won) -> Dispute:
    """Let the bank decide."""
    shop.double.control("dispute/end", dispute=row.stripe_dispute, is_won=is_won)
    found = disputes.read(dispute=row.stripe_dispute, now=now)
    assert found is not None
    return found


def stopped_for(topup) -> str:
    return Organization.objects.get(pk=topup.organization_id).stopped_for


@pytest.mark.parametrize(
    ("spent", "left"),
    [(0, (0, 0, 0)), (2000, (0, 2000, 0)), (5000, (0, 5000, 0))],
    ids=["before it is spent", "half spent", "all spent"],
)
def test_what_is_no_longer_there_is_owed(shop, now, spent, left):
    topup = paid(shop, amount=5000, now=now)
    if spent:
        spend(topup, minor=spent, now=now)

    row = disputed(shop, topup, now)
    for _ in range(3):
        disputes.read(dispute=row.stripe_dispute, now=now)

    assert (standing(topup), books_differ_by(topup)) == (left, 0)
    assert balance_of("dispute_loss") == 15_000_000_000
    assert DisputeMovement.objects.count() == 1
    assert reconcile.differences(now=now) == []


def test_what_was_refunded_before_is_not_disputed_again(shop, now):
    topup = paid(shop, amount=5000, now=now)
    shop.double.control("refund", charge=topup.charge, amount=2000)
    refund_reading.read(charge=topup.charge, now=now)

    disputed(shop, topup, now)

    assert (standing(topup), books_differ_by(topup)) == ((0, 0, 0), 0)


def test_spending_stops_and_goes_on_when_the_dispute_is_won(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=2000, now=now)

    row = disputed(shop, topup, now)
    assert stopped_for(topup) == "dispute"
    (seen,) = [one for one in owners() if one.id == topup.organization_id]
    assert seen.stopped_for == "dispute"
    won = ended(shop, row, now, is_won=True)

    assert (won.status, stopped_for(topup)) == ("won", "")
    assert (standing(topup), books_differ_by(topup)) == ((3000, 0, 0), 0)


def owners():
    """Return the organizations as the gateway reads them."""
    buckets = for_gateway.organization_digests()
    return [row for bucket in buckets for row in for_gateway.organizations_in_bucket(bucket=bucket)]


def test_an_inquiry_stops_spending_and_moves_nothing(shop, now):
    topup = paid(shop, amount=5000, now=now)

    row = disputed(shop, topup, now, reason="inquiry")

    assert (row.status, stopped_for(topup), standing(topup)) == ("warning_needs_response", "dispute", (5000, 0, 0))
    assert ended(shop, row, now, is_won=True).status == "warning_closed"
    assert stopped_for(topup) == ""


def test_what_is_owed_for_a_lost_dispute_becomes_bad_debt_after_its_time(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=4000, now=now)
    row = ended(shop, disputed(shop, topup, now), now, is_won=False)
    assert (row.status, standing(topup)) == ("lost", (0, 4000, 0))

    assert disputes.write_off_due(now=now + timedelta(days=30, seconds=-1)) == 0
    assert disputes.write_off_due(now=now + timedelta(days=30)) == 1
    assert disputes.write_off_due(now=now + timedelta(days=31)) == 0

    assert (standing(topup), balance_of("bad_debt")) == ((0, 0, 0), 40_000_000_000)
    assert stopped_for(topup) == "dispute"


def test_what_was_paid_meanwhile_is_not_written_off(shop, now, settings):
    settings.TOPUP_FIRST_CAP_MINOR = 0
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=4000, now=now)
    ended(shop, disputed(shop, topup, now), now, is_won=False)
    (stop,) = SpendingStop.objects.all()
    stops.lift_by_hand(organization=topup.organization, stop_id=stop.pk, note="paid", actor=OPERATOR, now=now)
    bought = shop.start(Organization.objects.get(), topup.created_by, amount=3000, now=now, key="again")
    shop.post_page(bought.checkout_url, "pay")
    topups.fulfil(topup_id=bought.pk, now=now)
    assert standing(topup) == (0, 1000, 0)

    disputes.write_off_due(now=now + timedelta(days=30))

    assert (standing(topup), balance_of("bad_debt")) == ((0, 0, 0), 10_000_000_000)


def test_a_disputed_purchase_is_not_refundable(shop, now):
    topup = paid(shop, amount=5000, now=now)
    disputed(shop, topup, now, is_withdrawn=False)

    assert refund_selectors.refundable(topup=topup) == 0
    with pytest.raises(refunds.NotRefundable):
        refunds.give(topup=topup, amount_minor=1, note="", actor=OPERATOR, now=now)


def test_events_in_any_order_and_twice_give_the_same_books(shop):
    now = clock.now()
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=1000, now=now)
    made = shop.double.control("dispute", charge=topup.charge)
    shop.double.control("dispute/end", dispute=made["id"], is_won=True)
    deliveries = shop.double.pending()

    for one in [*reversed(deliveries), *deliveries]:
        shop.deliver(one)
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    assert set(StripeEvent.objects.filter(type__contains="dispute").values_list("state", flat=True)) == {"done"}
    assert (standing(topup), books_differ_by(topup), stopped_for(topup)) == ((4000, 0, 0), 0, "")


def test_a_dispute_of_what_was_no_purchase_is_noted_and_stops_nobody(shop, now):
    topup = paid(shop, amount=5000, now=now)
    intent = shop.double.store.get("payment_intent", topup.payment_intent)
    charge = shop.double.store.get("charge", topup.charge)
    shop.double.store.put("payment_intent", intent | {"id": "pi_elsewhere", "metadata": {}})
    shop.double.store.put("charge", charge | {"id": "ch_other", "payment_intent": "pi_elsewhere", "metadata": {}})
    made = shop.double.control("dispute", charge="ch_other")

    assert disputes.read(dispute=made["id"], now=now) is None

    assert ForeignCharge.objects.values_list("kind", "stripe_object").get() == ("dispute", made["id"])
    assert (Dispute.objects.count(), stopped_for(topup), standing(topup)) == (0, "", (5000, 0, 0))


def test_what_providers_earn_from_it_waits_while_the_bank_decides(shop, now, settings):
    settings.PAYOUT_HOLD_DAYS = 7
    topup = paid(shop, amount=5000, now=now)
    CustomerRisk.objects.update(pinned_tier="trusted")
    market = Market(customer=topup.organization, paid_nano=0)
    market.serve()
    posting.post_usage(now=now)
    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=7)

    row = disputed(shop, topup, now)
    assert EarningMaturity.objects.get().matures_at == now + timedelta(days=90)
    ended(shop, row, now, is_won=True)

    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=7)


def test_a_dispute_makes_the_customer_new_again(shop, now):
    topup = paid(shop, amount=5000, now=now)
    later = now + timedelta(days=100)
    assert risk.judge(organization_id=topup.organization_id, now=later).tier == "known"

    disputed(shop, topup, later)

    assert risk.judge(organization_id=topup.organization_id, now=later).tier == "new"


def test_the_evidence_is_our_own_records_and_is_sent_once(shop, now):
    member = MembershipFactory()
    topup = shop.start(member.organization, member.user, amount=5000, now=now)
    shop.post_page(topup.checkout_url, "pay")
    topup = topups.fulfil(topup_id=topup.pk, now=now)
    row = disputed(shop, topup, now)

    shown = dispute_evidence.preview(stripe_dispute=row.stripe_dispute)
    sent = dispute_evidence.submit(stripe_dispute=row.stripe_dispute, note="They used it.", actor=OPERATOR, now=now)

    assert (shown.customer_name, shown.customer_email) == (member.organization.name, member.user.email)
    assert topup.payment_intent in shown.text
    at_stripe = shop.double.store.get("dispute", row.stripe_dispute)["evidence"]
    assert at_stripe["uncategorized_text"].startswith("They used it.")
    assert (sent.status, sent.evidence_sent_at) == ("under_review", now)
    with pytest.raises(dispute_evidence.NotAnswerable):
        dispute_evidence.submit(stripe_dispute=row.stripe_dispute, note="", actor=OPERATOR, now=now)


def test_evidence_whose_answer_was_lost_is_sent_again_as_it_was(shop, now):
    topup = paid(shop, amount=5000, now=now)
    row = disputed(shop, topup, now)
    shop.double.control("fail", path="/v1/disputes", kind="reset", when="after", count=3)
    with pytest.raises(dispute_evidence.stripe.PaymentOutcomeUnknown):
        dispute_evidence.submit(stripe_dispute=row.stripe_dispute, note="first", actor=OPERATOR, now=now)
    shop.double.store.rows("UPDATE faults SET remaining = 0")

    sent = dispute_evidence.submit(stripe_dispute=row.stripe_dispute, note="second", actor=OPERATOR, now=now)

    evidence = shop.double.store.get("dispute", row.stripe_dispute)["evidence"]
    assert (sent.status, evidence["uncategorized_text"].split("\n")[0]) == ("under_review", "first")


def test_promotional_credit_is_stopped_too(shop, now):
    topup = paid(shop, amount=5000, now=now)
    grants.grant_promo(organization=topup.organization, amount_nano=10**9, key="gift", actor=SYSTEM_ACTOR, now=now)

    disputed(shop, topup, now)

    assert stopped_for(topup) == "dispute"
    assert balance_of("promo_credit", topup.organization.public_id) == 10**9
