"""`kill -9` of the worker at every step of a payout, a refund and an automatic purchase: afterwards it is done once.

Each also with Stripe's answer lost before or after Stripe has acted. Real connections, a real stand-in.
"""

from itertools import count

import pytest

from portal.billing.services import reconcile as billing
from portal.core import clock, money
from portal.integrations import stripe
from portal.payouts.selectors import reconcile as payouts
from tests.factories.payouts import balance_of
from tests.integration.kills import doomed
from tests.integration.kills.scenes import ChargingTheCard, PayingOut, Refunding, come_to_rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300), pytest.mark.long]

# Work that could be killed at fewer moments than these would not be the work any more.
FEWEST = {PayingOut: 10, Refunding: 8, ChargingTheCard: 6}
KINDS = [PayingOut, Refunding, ChargingTheCard]


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_step_it_is_done_once(kind, shop):
    scene = kind.begin(shop)
    for step in count(1):
        scene.prepare()

        is_over = doomed.lives(scene.work, dies_at=step)

        come_to_rest(scene)
        scene.assert_done_once()
        if is_over:
            break
    assert step > FEWEST[kind]
    assert_books_agree()


@pytest.mark.parametrize("kind", KINDS)
def test_with_stripes_answer_lost_it_is_done_once(kind, shop):
    scene = kind.begin(shop)
    for lost in ("before", "after"):
        scene.prepare()
        shop.double.control("fail", path=scene.money_path, kind="reset", when=lost, count=3)

        scene.work()

        come_to_rest(scene)
        scene.assert_done_once()
    assert_books_agree()


def assert_books_agree():
    """Compare the ledger with its own rows and with what lies at Stripe."""
    ours = balance_of("stripe_balance") // money.nano_per_minor("usd")
    theirs = sum(one.available_minor + one.pending_minor for one in stripe.payments().balances())
    assert [billing.differences(now=clock.now()), payouts.differences(now=clock.now())] == [[], []]
    assert theirs == ours
