"""Real threads on real connections: one purchase a crossing, no cap passed, no reference and no bill twice."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connections

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import BankTransfer, LedgerTx, PromoGrant, TopUp
from portal.billing.rules.leasing import Ask
from portal.billing.services import auto_topups, grants, leases, postpaid, topups
from portal.billing.services.bank_transfers import Line, enter
from portal.billing.services.grants import Gift
from portal.billing.services.postpaid import Terms
from portal.core.errors import DomainError
from tests.factories import metering
from tests.factories.accounts import UserFactory
from tests.factories.billing import OPENED, Market
from tests.factories.payouts import balance_of
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 6


def at_once(*actions):
    """Run the actions on connections of their own, started together; return results or refusals in order."""
    barrier = Barrier(len(actions))

    def run(action):
        try:
            barrier.wait(10)
            return action()
        except DomainError as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(30) for future in [pool.submit(run, action) for action in actions]]


@pytest.fixture
def low(shop, now):
    organization = saving.customer(shop, now=now)
    saving.turn_on(organization, now=now)
    saving.spend(organization, minor=600, now=now, key="1")
    return organization


# elizaOS/eliza#10857: checked now, charged later: many at once pass the check
def test_many_who_notice_low_credit_begin_one_purchase(shop, low, now):
    begun = at_once(*[lambda: auto_topups.begin(organization_id=low.pk, now=now)] * THREADS)

    assert sum(topup is not None for topup in begun) == 1
    (topup,) = saving.autos(low)
    charged = at_once(*[lambda: auto_topups.charge(topup_id=topup.pk, now=now)] * THREADS)
    assert {row.pk for row in charged} == {topup.pk}
    assert (len(saving.payments(shop, topup)), saving.credit_minor(low)) == (1, 2400)


def test_the_cap_holds_while_purchases_end_and_begin_at_once(shop, low, now):
    saving.turn_on(low, now=now, threshold=9000, amount=2000, cap=5000)

    def buy_one(minute):
        topup = auto_topups.begin(organization_id=low.pk, now=now + timedelta(minutes=minute))
        return topup and auto_topups.charge(topup_id=topup.pk, now=now + timedelta(minutes=minute))

    for _ in range(3):
        at_once(*[lambda minute=minute: buy_one(minute) for minute in range(4)])

    assert saving.credit_minor(low) == 400 + 4000
    assert TopUp.objects.filter(origin="auto", state="paid").count() == 2


# opencode#28402, llmgateway#1713, pollinations#10621, woocommerce-gateway-stripe#2536: two who complete one order
def test_page_webhook_and_sweeper_at_once_credit_once(shop, now):
    topup = shop.buy(amount=5000, now=now)

    done = at_once(*[lambda: topups.fulfil(topup_id=topup.pk, now=now)] * THREADS)

    assert {row.state for row in done} == {"paid"}
    assert LedgerTx.objects.filter(kind="topup").count() == 1
    assert balance_of("customer_credit", topup.organization.public_id) == 5000 * saving.CENT


# getlago/lago-api#5870: the same request twice is two top-ups
def test_two_clicks_at_once_are_one_purchase(shop, now):
    organization, user = shop.customer()

    found = at_once(*[lambda: shop.start(organization, user, amount=5000, now=now)] * 2)

    assert len({row.pk for row in found if isinstance(row, TopUp)}) == 1
    assert (TopUp.objects.count(), len(shop.double.store.all("checkout.session"))) == (1, 1)


def test_two_operators_who_enter_one_line_book_it_once(now):
    market, operator = Market(paid_nano=0, lease_nano=0), UserFactory(is_operator=True)
    line = Line(reference="B-1", amount_minor=100, received_on=now.date(), payer="ACME")

    found = at_once(
        *[lambda: enter(organization=market.customer, line=line, operator=operator, actor=SYSTEM_ACTOR, now=now)] * 4
    )

    assert {row.pk for row in found} == {BankTransfer.objects.get().pk}
    assert balance_of("bank_balance") == 100 * saving.CENT


def test_a_gift_that_expires_while_it_is_leased_is_neither_lost_nor_spent_twice(now):
    market = Market(paid_nano=0, lease_nano=0)
    gift = Gift(1_000, now + timedelta(days=1))
    grants.give(organization=market.customer, gift=gift, key="k", actor=SYSTEM_ACTOR, now=now)
    spools = [metering.spool(now=OPENED) for _ in range(4)]
    later = now + timedelta(days=2)

    def lease(spool):
        return leases.grant(organization_id=market.customer.pk, spool_id=spool.pk, ask=Ask(200, 1), now=later)

    at_once(
        *[lambda spool=spool: lease(spool) for spool in spools],
        *[lambda: grants.expire(organization_id=market.customer.pk, now=later)] * 2,
    )

    grant = PromoGrant.objects.get()
    held = sum(row.granted for row in leases.LIFE.rows.all())
    assert grant.expired_nano + held == 1_000
    assert balance_of("promo_credit", market.customer.public_id) == held


def test_nothing_is_lent_of_a_line_that_is_stopped_at_the_same_moment(now):
    market = Market(paid_nano=0, lease_nano=0)
    postpaid.offer(
        organization=market.customer,
        terms=Terms(1_000, 14),
        operator=UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )
    postpaid.accept(organization=market.customer, user=UserFactory(), actor=SYSTEM_ACTOR, now=now)
    spools = [metering.spool(now=OPENED) for _ in range(4)]

    def lease(spool):
        return leases.grant(organization_id=market.customer.pk, spool_id=spool.pk, ask=Ask(100, 1), now=OPENED)

    at_once(
        *[lambda spool=spool: lease(spool) for spool in spools],
        lambda: postpaid.end(organization=market.customer, reason="over", actor=SYSTEM_ACTOR, now=now),
    )

    assert set(leases.LIFE.rows.values_list("state", flat=True)) <= {"closing"}
    assert lease(spools[0]).leases == ()
