"""Stored events are handled by looking at Stripe, safe to repeat, and never forgotten in silence."""

from datetime import timedelta

import pytest

from portal.audit.models import AuditEvent
from portal.core import clock
from portal.payouts.models import PayoutAccount
from portal.payouts.services import sending
from portal.webhooks.models import StripeEvent
from portal.webhooks.services import catch_up, dispatch
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db


def stored(now, **fields) -> StripeEvent:
    """Return an event in the inbox."""
    defaults = {
        "source": "platform",
        "event_id": "evt_1",
        "type": "checkout.session.completed",
        "object_id": "cs_test_unknown",
        "is_live": False,
        "body": b"{}",
        "received_at": now,
        "next_try_at": now,
    }
    return StripeEvent.objects.create(**(defaults | fields))


def test_an_event_about_something_unknown_is_kept_for_three_days_then_shouted_about(shop, now):
    event = stored(now)

    first = dispatch.handle(event_id=event.pk, now=now)
    assert (first.state, first.error) == ("pending", "unknown_reference: no purchase has session cs_test_unknown")
    assert first.next_try_at == now + timedelta(seconds=5)

    later = dispatch.handle(event_id=event.pk, now=now + timedelta(days=2, hours=23))
    assert later.state == "pending"
    last = dispatch.handle(event_id=event.pk, now=now + timedelta(days=3, hours=1))
    assert (last.state, last.tries) == ("failed", 3)
    assert AuditEvent.objects.filter(event="webhook.failed", subject="evt_1").count() == 1


def test_it_is_not_tried_before_its_time(shop, now):
    event = stored(now)
    dispatch.handle(event_id=event.pk, now=now)

    again = dispatch.handle(event_id=event.pk, now=now + timedelta(seconds=4))

    assert again.tries == 1


def test_a_crash_in_the_middle_costs_a_pause_and_not_the_event(shop, now):
    event = stored(now)
    dispatch._claim(event.pk, now)

    event.refresh_from_db()

    assert (event.state, event.next_try_at) == ("pending", now + timedelta(seconds=5))


def test_types_that_mean_nothing_to_us_are_put_aside(shop, now):
    event = stored(now, type="product.created", object_id="prod_1")

    assert dispatch.handle(event_id=event.pk, now=now).state == "ignored"


def test_a_refund_that_is_nowhere_is_never_passed_over(shop, now):
    event = stored(now, type="charge.refunded", object_id="ch_1")

    first = dispatch.handle(event_id=event.pk, now=now)
    last = dispatch.handle(event_id=event.pk, now=now + timedelta(days=3, hours=1))

    assert (first.state, first.error.split(":")[0]) == ("pending", "unknown_reference")
    assert last.state == "failed"


def test_stripe_out_of_reach_means_later(shop, now):
    topup = shop.buy(amount=5000, now=now)
    event = stored(now, object_id=topup.checkout_session)
    shop.double.control("fail", method="GET", path="/v1/checkout", kind="reset", count=3)
    assert dispatch.handle(event_id=event.pk, now=now).state == "pending"

    assert dispatch.handle(event_id=event.pk, now=now + timedelta(minutes=1)).state == "done"

    assert balance_of("customer_credit", topup.organization.public_id) == 50_000_000_000


def test_a_thin_event_makes_us_read_the_account(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    shop.deliver_all()
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))
    shop.double.control("account", account=provider.payout_account.stripe_account, move="restrict")

    shop.deliver_all()
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    assert PayoutAccount.objects.get().state == "restricted"


def test_the_banks_answer_comes_by_the_connect_endpoint(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)
    bank = shop.double.control("bank/run")["payouts"][0]
    shop.double.control("bank/end", account=payout.destination, payout=bank["id"], is_good=False)

    assert set(shop.deliver_all()) == {200}
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    payout.refresh_from_db()
    assert (payout.bank_state, payout.state) == ("failed", "transferred")


def test_a_reversal_comes_by_the_platforms_endpoint(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)
    shop.double.control("reverse", transfer=payout.stripe_transfer, amount=50)

    shop.deliver_all()
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    payout.refresh_from_db()
    assert payout.reversed_minor == 50


def test_events_that_never_arrived_are_fetched(shop):
    now = clock.now()
    shop.double.control("webhooks", kind="drop", count=50)
    topup = shop.buy(amount=5000, now=now)
    shop.provider(earned_minor=0, now=now)
    assert shop.double.pending() == []

    assert catch_up.catch_up(now=now + timedelta(minutes=1)) > 1
    assert catch_up.catch_up(now=now + timedelta(minutes=1)) == 0
    dispatch.handle_due(now=now + timedelta(minutes=2))

    topup.refresh_from_db()
    assert topup.state == "paid"
    assert set(StripeEvent.objects.values_list("source", flat=True)) == {"platform", "events"}
