"""Refunds made in Stripe's dashboard are booked once each; what is no longer there is owed; nobody goes in circles."""

from datetime import timedelta

import pytest

from portal.billing.models import ForeignCharge, Refund
from portal.billing.rules.leasing import Ask
from portal.billing.services import leases, reconcile, refund_reading, topups
from portal.core import clock
from portal.webhooks.models import StripeEvent
from portal.webhooks.services import dispatch
from tests.factories import metering
from tests.integration.returns.till import books_differ_by, paid, spend, standing

pytestmark = pytest.mark.django_db


def at_stripe(shop, topup, *, amount=0) -> dict[str, object]:
    """Refund in Stripe's dashboard."""
    return shop.double.control("refund", charge=topup.charge, amount=amount)


def test_each_is_booked_once_however_often_it_is_told(shop, now):
    topup = paid(shop, amount=5000, now=now)
    at_stripe(shop, topup, amount=1200)
    at_stripe(shop, topup, amount=800)

    for _ in range(3):
        assert refund_reading.read(charge=topup.charge, now=now) == 2

    assert (Refund.objects.count(), standing(topup), books_differ_by(topup)) == (2, (3000, 0, 0), 0)
    assert set(Refund.objects.values_list("origin", "state")) == {("stripe", "succeeded")}
    assert reconcile.differences(now=now) == []


@pytest.mark.parametrize(
    ("spent", "left"),
    [(0, (2000, 0, 0)), (3000, (0, 1000, 0)), (5000, (0, 3000, 0))],
    ids=["before", "during", "after"],
)
def test_what_was_spent_before_is_owed(shop, now, spent, left):
    topup = paid(shop, amount=5000, now=now)
    if spent:
        spend(topup, minor=spent, now=now)

    at_stripe(shop, topup, amount=3000)
    refund_reading.read(charge=topup.charge, now=now)

    assert (standing(topup), books_differ_by(topup)) == (left, 0)


def test_what_a_gateway_holds_is_owed_until_it_comes_back(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spool = metering.spool(now=now)
    ask = Ask(wanted_nano=40 * 10**9, minimum_nano=1, idle_nano={})
    lease = leases.grant(organization_id=topup.organization_id, spool_id=spool.pk, ask=ask, now=now).leases[0]

    at_stripe(shop, topup, amount=5000 - 175)
    refund_reading.read(charge=topup.charge, now=now)
    assert standing(topup) == (4000, 3825, 0)
    leases.LIFE.shrink(lease_id=lease.lease_id, keep_nano=0)
    refund_reading.sweep(now=now)

    assert standing(topup) == (175, 0, 0)
    assert reconcile.differences(now=now) == []


def test_one_that_fails_pays_the_debt_first(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=4000, now=now)
    made = at_stripe(shop, topup, amount=3000)
    refund_reading.read(charge=topup.charge, now=now)
    assert standing(topup) == (0, 2000, 0)

    shop.double.control("refund/end", refund=made["id"], is_good=False)
    refund_reading.read(charge=topup.charge, now=now)

    assert (standing(topup), books_differ_by(topup)) == ((1000, 0, 0), 0)


def test_a_new_purchase_pays_what_is_owed(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=5000, now=now)
    at_stripe(shop, topup, amount=4000)
    refund_reading.read(charge=topup.charge, now=now)

    bought = shop.start(topup.organization, topup.created_by, amount=5000, now=now, key="next")
    shop.post_page(bought.checkout_url, "pay")
    topups.fulfil(topup_id=bought.pk, now=now)

    assert standing(topup) == (1000, 0, 0)


def handled(shop) -> dict[str, str]:
    """Deliver and handle all events; return what became of those about refunds."""
    shop.deliver_all()
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))
    rows = StripeEvent.objects.filter(type__contains="refund").values_list("type", "state", "error")
    return {kind: f"{state} {error}".strip() for kind, state, error in rows}


def test_the_events_do_it_all(shop, now):
    topup = paid(shop, amount=5000, now=now)
    shop.double.control("webhooks", kind="duplicate", count=20)
    at_stripe(shop, topup, amount=2000)

    assert set(handled(shop).values()) == {"done"}

    assert (Refund.objects.count(), standing(topup)) == (1, (3000, 0, 0))


def test_a_refund_of_a_purchase_that_is_not_credited_waits(shop, now):
    topup = shop.buy(amount=5000, now=now)
    charge = shop.double.store.all("charge")[0]
    shop.double.control("refund", charge=charge["id"], amount=2000)

    with pytest.raises(refund_reading.PurchaseUnknown):
        refund_reading.read(charge=charge["id"], now=now)
    topup = topups.fulfil(topup_id=topup.pk, now=now)
    refund_reading.read(charge=charge["id"], now=now)

    assert standing(topup) == (3000, 0, 0)


def test_a_refund_of_what_was_no_purchase_is_noted_once_and_goes_in_no_circle(shop, now):
    """A sale that the operator made at Stripe without this pool."""
    topup = paid(shop, amount=5000, now=now)
    intent = shop.double.store.get("payment_intent", topup.payment_intent)
    charge = shop.double.store.get("charge", topup.charge)
    shop.double.store.put(
        "payment_intent", intent | {"id": "pi_elsewhere", "metadata": {}, "latest_charge": "ch_other"}
    )
    shop.double.store.put("charge", charge | {"id": "ch_other", "payment_intent": "pi_elsewhere", "metadata": {}})
    shop.double.control("refund", charge="ch_other", amount=700)

    assert set(handled(shop).values()) == {"done"}

    found = ForeignCharge.objects.get()
    assert (found.kind, found.charge, found.amount_minor) == ("refund", "ch_other", 700)
    assert (Refund.objects.count(), standing(topup)) == (0, (5000, 0, 0))
