"""An operator takes a transfer back: once, under one key, and the ledger follows what Stripe says."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.audit.services import SYSTEM_ACTOR
from portal.core.errors import InvalidValue
from portal.payouts import tasks
from portal.payouts.errors import NotAnOperator, PayoutMoveRefused, ReversalOpen, ReversalTooLarge
from portal.payouts.models import Payout, PayoutReversal
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import reversals, sending
from tests.factories.accounts import UserFactory
from tests.factories.payouts import balance_of
from tests.world import World

pytestmark = pytest.mark.django_db
REVERSALS = "/v1/transfers/{}/reversals"


@pytest.fixture
def sent(shop, now) -> Payout:
    """A payout of 25.50 that has reached the provider's Stripe account."""
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    return sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)


def ask(payout: Payout, now, *, amount: int = 2550, by=None, reason: str = "paid twice") -> PayoutReversal:
    return reversals.request(
        payout_public_id=payout.public_id,
        amount_minor=amount,
        reason=reason,
        requested_by=by or UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )


def available(payout: Payout) -> int:
    return balance_of("provider_available", payout.provider.public_id)


def at_stripe(shop, payout: Payout) -> int:
    return shop.transfers(payout)[0]["amount_reversed"]


def test_a_reversal_in_full_ends_the_payout(shop, sent, now):
    done = reversals.send(reversal_id=ask(sent, now).pk, now=now)

    sent.refresh_from_db()
    assert (done.state, sent.state) == ("done", "reversed")
    assert (available(sent), at_stripe(shop, sent)) == (25_500_000_000, 2550)
    assert differences(now=now) == []


def test_a_reversal_in_part_leaves_it_sent(shop, sent, now):
    reversals.send(reversal_id=ask(sent, now, amount=1000).pk, now=now)

    sent.refresh_from_db()
    assert (sent.state, sent.reversed_minor, available(sent)) == ("transferred", 1000, 10_000_000_000)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_never_takes_it_back_twice(shop, sent, now, when):
    row = ask(sent, now, amount=1000)
    shop.double.control("fail", path=REVERSALS.format(sent.stripe_transfer), kind="reset", when=when, count=3)

    assert reversals.send(reversal_id=row.pk, now=now).state == "requested"
    assert reversals.open_reversals() == [row.pk]
    assert reversals.send(reversal_id=row.pk, now=now).state == "done"

    assert (at_stripe(shop, sent), available(sent)) == (1000, 10_000_000_000)


def test_what_the_account_no_longer_has_is_refused_and_books_nothing(shop, sent, now):
    shop.double.control("bank/run")

    refused = reversals.send(reversal_id=ask(sent, now).pk, now=now)

    assert (refused.state, refused.error_code, available(sent)) == ("refused", "balance_insufficient", 0)


def test_a_finished_one_is_not_sent_again(shop, sent, now):
    row = ask(sent, now, amount=1000)
    reversals.send(reversal_id=row.pk, now=now)

    assert reversals.send(reversal_id=row.pk, now=now).state == "done"
    assert at_stripe(shop, sent) == 1000


def test_a_key_that_is_too_old_is_left_to_a_person(shop, sent, now):
    row = ask(sent, now, amount=1000)

    assert reversals.send(reversal_id=row.pk, now=now + timedelta(hours=21)).state == "requested"
    assert at_stripe(shop, sent) == 0


def test_the_sweeper_finds_what_was_never_enqueued(shop, sent):
    from portal.core import clock

    ask(sent, clock.now(), amount=1000)

    tasks.sweep_reversals()

    assert at_stripe(shop, sent) == 1000


def test_one_at_a_time(sent, now):
    ask(sent, now, amount=1)

    with pytest.raises(ReversalOpen):
        ask(sent, now, amount=1)

    assert PayoutReversal.objects.count() == 1


@pytest.mark.parametrize("amount", [0, -1, 2551])
def test_never_more_than_was_sent(sent, now, amount):
    with pytest.raises(ReversalTooLarge):
        ask(sent, now, amount=amount)

    assert PayoutReversal.objects.count() == 0


def test_by_operators_with_a_reason_and_only_of_what_was_sent(shop, sent, now):
    with pytest.raises(NotAnOperator):
        ask(sent, now, by=UserFactory())
    with pytest.raises(InvalidValue):
        ask(sent, now, reason=" ")
    Payout.objects.filter(pk=sent.pk).update(state="needs_review")
    with pytest.raises(PayoutMoveRefused):
        ask(sent, now)

    assert PayoutReversal.objects.count() == 0


def test_on_the_operators_page(shop, sent, world: World):
    operator = world.client(world.operator)
    page = reverse("operators:payout", args=[sent.public_id])
    assert "Take it back" in operator.get(page).content.decode()

    url = reverse("operators:payout-reverse", args=[sent.public_id])
    assert operator.post(url, {"amount_minor": "10.5", "reason": "x"}).status_code == 400
    assert operator.post(url, {"amount_minor": "1000", "reason": "paid twice"}).status_code == 302

    row = PayoutReversal.objects.get()
    assert row.public_id in operator.get(page).content.decode()
