"""Two at once, on real connections: runs, senders, purchases."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerTx
from portal.billing.services import topups
from portal.core import clock
from portal.integrations.stripe_errors import PaymentOutcomeUnknown
from portal.payouts.errors import PayoutNotSendable
from portal.payouts.models import Payout
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import drafts, reconcile, sending
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db(transaction=True)

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


def test_runs_that_overlap_reserve_once(shop):
    now = clock.now()
    providers = [shop.provider(earned_minor=2550, now=now) for _ in range(3)]

    made = at_once(lambda: drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR))

    assert sum(len(run.payouts) for run in made) == 3
    assert Payout.objects.count() == 3
    assert [balance_of("provider_available", one.public_id) for one in providers] == [0, 0, 0]
    assert differences(now=now) == []


def test_senders_that_overlap_send_once(shop):
    now = clock.now()
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)

    def send():
        try:
            return sending.send(payout_id=payout.pk, now=now).state
        except PayoutNotSendable:
            return "taken"

    assert sorted(at_once(send)) == ["taken"] * (WORKERS - 1) + ["transferred"]
    assert len(shop.transfers(payout)) == 1
    assert differences(now=now) == []


def test_reconcilers_that_overlap_settle_once(shop):
    now = clock.now()
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="before", count=3)
    assert sending.send(payout_id=payout.pk, now=now).state == "unknown"

    at_once(lambda: reconcile.reconcile_unknown(now=now))
    reconcile.reconcile_unknown(now=now)

    payout.refresh_from_db()
    assert (payout.state, len(shop.transfers(payout))) == ("transferred", 1)
    assert LedgerTx.objects.filter(kind="payout_sent").count() == 1
    assert differences(now=now) == []


def test_webhook_and_page_at_once_credit_once(shop):
    now = clock.now()
    topup = shop.buy(amount=5000, now=now)

    at_once(lambda: topups.fulfil(topup_id=topup.pk, now=now))

    assert LedgerTx.objects.filter(kind="topup").count() == 1
    assert balance_of("customer_credit", topup.organization.public_id) == 50_000_000_000


def test_two_clicks_are_one_purchase(shop):
    now = clock.now()
    organization, user = shop.customer()

    made = at_once(lambda: _start(shop, organization, user, now))

    assert len({one for one in made if one}) == 1
    assert len(shop.double.store.all("checkout.session")) == 1
    assert len(shop.double.store.all("customer")) == 1


def _start(shop, organization, user, now):
    try:
        return shop.start(organization, user, amount=5000, now=now).public_id
    except PaymentOutcomeUnknown:
        return ""
