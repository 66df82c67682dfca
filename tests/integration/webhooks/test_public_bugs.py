"""What went wrong with events and unknown outcomes in other projects' public threads, one test a row of that list."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connection

from portal.billing.models import LedgerTx, TopUp
from portal.billing.services import topups
from portal.core import clock
from portal.payouts.models import Payout, PayoutAttempt
from portal.payouts.services import reconcile, runs, sending
from portal.webhooks.models import StripeEvent
from portal.webhooks.services import dispatch
from tests.factories.payouts import balance_of

real_threads = pytest.mark.django_db(transaction=True)
WORKERS = 4


def at_once(call):
    """Run `call` in several threads that start together, each on its own connection; return what each gave."""
    barrier = Barrier(WORKERS)

    def work(_):
        barrier.wait(30)
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, range(WORKERS)))


def paid(shop, now) -> TopUp:
    """Return a purchase that was paid at Stripe, its events waiting there."""
    return shop.buy(amount=5_000, now=now)


def of_type(shop, name: str):
    """Return the waiting delivery of this type."""
    return next(one for one in shop.double.pending() if name.encode() in one.body)


@pytest.mark.django_db
def test_a_duplicate_event_is_200_and_not_an_error_that_makes_more_of_them(shop, now):
    paid(shop, now)
    delivery = of_type(shop, "checkout.session.completed")

    answers = [shop.deliver(delivery) for _ in range(3)]

    assert answers == [200, 200, 200]
    assert StripeEvent.objects.filter(type="checkout.session.completed").count() == 1


@real_threads
def test_the_same_event_from_many_sides_at_once_is_one_row_and_one_credit(shop):
    now = clock.now()
    topup = paid(shop, now)
    delivery = of_type(shop, "checkout.session.completed")

    assert at_once(lambda: shop.deliver(delivery)) == [200] * WORKERS
    event = StripeEvent.objects.get(type="checkout.session.completed")
    at_once(lambda: dispatch.handle(event_id=event.pk, now=now).state)
    at_once(lambda: topups.fulfil(topup_id=topup.pk, now=now).state)

    assert LedgerTx.objects.filter(kind="topup").count() == 1
    assert balance_of("customer_credit", topup.organization.public_id) == 50 * 10**9


@pytest.mark.django_db
def test_an_event_of_a_connected_account_is_looked_up_as_that_account(shop, now):
    shop.fund(10_000)
    payout = shop.approved(shop.provider(earned_minor=2_550, now=now), now=now)
    sending.send(payout_id=payout.pk, now=now)
    shop.deliver_all()
    dispatch.handle_due(now=now)
    shop.double.control("bank/run")

    shop.deliver_all()
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    event = StripeEvent.objects.filter(source="connect", type="payout.created").get()
    assert (event.account, event.state) == (payout.destination, "done")
    payout.refresh_from_db()
    assert payout.bank_state != ""


@pytest.mark.django_db
def test_updated_before_created_ends_in_what_stripe_has_now(shop, now):
    shop.fund(10_000)
    payout = shop.approved(shop.provider(earned_minor=2_550, now=now), now=now)
    sending.send(payout_id=payout.pk, now=now)
    (made,) = shop.double.control("bank/run")["payouts"]
    shop.double.control("bank/end", account=payout.destination, payout=made["id"], is_good=True)

    for delivery in reversed(shop.double.pending()):
        shop.deliver(delivery)
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    payout.refresh_from_db()
    assert payout.bank_state == "paid"


@pytest.mark.django_db
def test_an_event_that_comes_before_its_row_is_kept_and_handled_when_the_row_is_there(shop, now):
    topup = paid(shop, now)
    session, topup.checkout_session = topup.checkout_session, "cs_test_not_written_yet"
    topup.save(update_fields=["checkout_session"])
    shop.deliver(of_type(shop, "checkout.session.completed"))
    dispatch.handle_due(now=clock.now())
    event = StripeEvent.objects.get(type="checkout.session.completed")
    assert (event.state, event.tries) == ("pending", 1)

    topup.checkout_session = session
    topup.save(update_fields=["checkout_session"])
    dispatch.handle_due(now=clock.now() + timedelta(minutes=1))

    event.refresh_from_db()
    topup.refresh_from_db()
    assert (event.state, topup.state) == ("done", "paid")


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["timeout", "500"])
def test_an_ambiguous_failure_keeps_the_money_aside_and_a_pruned_key_pays_nobody_twice(shop, now, kind):
    shop.fund(10_000)
    payout = shop.approved(shop.provider(earned_minor=2_550, now=now), now=now)
    shop.double.control("fail", path="/v1/transfers", kind=kind, when="before", count=3)

    assert sending.send(payout_id=payout.pk, now=now).state == "unknown"
    assert balance_of("payout_clearing", payout.provider.public_id) == 25_500_000_000
    shop.double.control("clock/advance", seconds=25 * 3600)
    late = now + timedelta(hours=25)
    runs.run(now=late)
    runs.run(now=late)

    payout.refresh_from_db()
    assert payout.state == "needs_review"
    assert [one.number for one in PayoutAttempt.objects.filter(payout=payout)] == [1]
    assert shop.transfers(payout) == []
    assert balance_of("payout_clearing", payout.provider.public_id) == 25_500_000_000


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["timeout", "reset", "500"])
def test_a_time_out_is_no_error_and_the_janitor_finds_what_was_done(shop, now, kind):
    shop.fund(10_000)
    payout = shop.approved(shop.provider(earned_minor=2_550, now=now), now=now)
    shop.double.control("fail", path="/v1/transfers", kind=kind, when="after", count=3)

    assert sending.send(payout_id=payout.pk, now=now).state == "unknown"
    found: Payout = reconcile.reconcile(payout_id=payout.pk, now=now + timedelta(minutes=10))

    assert found.state == "transferred"
    assert [one["id"] for one in shop.transfers(payout)] == [found.stripe_transfer]
    assert balance_of("payout_clearing", payout.provider.public_id) == 0
