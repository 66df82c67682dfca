"""Nobody knows whether Stripe did it: look first, then the same key, then a person; never a second transfer."""

from datetime import timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.payouts.errors import PayoutFound, PayoutMoveRefused
from portal.payouts.models import Payout
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import reconcile, reviews, sending
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db

ALL_TRIES = 3


@pytest.fixture
def approved(shop, now):
    """An approved payout of 25.50, with enough money at Stripe."""
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    return shop.approved(provider, now=now)


@pytest.mark.parametrize("kind", ["reset", "500"])
def test_a_transfer_whose_answer_got_lost_is_found(shop, approved, now, kind):
    shop.double.control("fail", path="/v1/transfers", kind=kind, when="after", count=ALL_TRIES)

    lost = sending.send(payout_id=approved.pk, now=now)
    assert (lost.state, lost.stripe_transfer) == ("unknown", None)
    assert balance_of("payout_clearing", lost.provider.public_id) == 25_500_000_000

    found = reconcile.reconcile_unknown(now=now).states
    approved.refresh_from_db()
    assert found == {approved.public_id: "transferred"}
    assert [approved.stripe_transfer] == [one["id"] for one in shop.transfers(approved)]
    assert differences(now=now) == []


def test_a_time_out_after_the_commit_is_found(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="timeout", when="after", count=ALL_TRIES)

    assert sending.send(payout_id=approved.pk, now=now).state == "unknown"

    reconcile.reconcile_unknown(now=now)
    approved.refresh_from_db()
    assert (approved.state, len(shop.transfers(approved))) == ("transferred", 1)


def test_a_call_that_never_arrived_is_made_again_under_the_same_key(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="before", count=ALL_TRIES)

    assert sending.send(payout_id=approved.pk, now=now).state == "unknown"
    assert shop.transfers(approved) == []

    reconcile.reconcile_unknown(now=now + timedelta(hours=1))
    approved.refresh_from_db()
    assert (approved.state, approved.attempts.count()) == ("transferred", 1)
    assert len(shop.transfers(approved)) == 1


def test_a_stored_error_is_repeated_until_the_key_is_too_old_then_a_person_looks(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="500", when="before")
    assert sending.send(payout_id=approved.pk, now=now).state == "unknown"

    reconcile.reconcile_unknown(now=now + timedelta(hours=19, minutes=59))
    approved.refresh_from_db()
    assert (approved.state, shop.transfers(approved)) == ("unknown", [])

    reconcile.reconcile_unknown(now=now + timedelta(hours=20))
    approved.refresh_from_db()
    assert (approved.state, approved.attempts.count(), shop.transfers(approved)) == ("needs_review", 1, [])

    reviews.retry(payout_public_id=approved.public_id, actor=SYSTEM_ACTOR, now=now + timedelta(hours=21))
    assert sending.send(payout_id=approved.pk, now=now + timedelta(hours=21)).state == "transferred"
    assert [one.idempotency_key[-2:] for one in approved.attempts.order_by("number")] == [":1", ":2"]
    assert len(shop.transfers(approved)) == 1


def test_an_operator_may_release_what_stripe_does_not_have(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="500", when="before")
    sending.send(payout_id=approved.pk, now=now)
    later = now + timedelta(hours=20)
    reconcile.reconcile_unknown(now=later)

    released = reviews.release(payout_public_id=approved.public_id, reason="given up", actor=SYSTEM_ACTOR, now=later)

    assert (released.state, released.state_reason) == ("rejected", "given up")
    assert balance_of("provider_available", released.provider.public_id) == 25_500_000_000
    assert differences(now=later) == []


def test_an_operator_cannot_release_what_stripe_has(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="500", when="after")
    sending.send(payout_id=approved.pk, now=now)
    Payout.objects.filter(pk=approved.pk).update(state="needs_review")

    with pytest.raises(PayoutFound):
        reviews.release(payout_public_id=approved.public_id, reason="given up", actor=SYSTEM_ACTOR, now=now)

    approved.refresh_from_db()
    assert (approved.state, balance_of("provider_available", approved.provider.public_id)) == ("transferred", 0)


def test_only_a_payout_in_review_can_be_decided(shop, approved, now):
    with pytest.raises(PayoutMoveRefused):
        reviews.retry(payout_public_id=approved.public_id, actor=SYSTEM_ACTOR, now=now)


def test_it_stays_unknown_while_stripe_cannot_be_asked(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="after", count=ALL_TRIES)
    sending.send(payout_id=approved.pk, now=now)
    shop.double.control("fail", method="GET", path="/v1/transfers", kind="reset", count=ALL_TRIES)

    reconcile.reconcile_unknown(now=now)

    approved.refresh_from_db()
    assert approved.state == "unknown"


def test_a_transfer_with_another_amount_goes_to_a_person(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="after", count=ALL_TRIES)
    sending.send(payout_id=approved.pk, now=now)
    transfer = shop.transfers(approved)[0]
    with shop.double.store.transaction():
        shop.double.store.put("transfer", {**transfer, "amount": 2551})

    reconcile.reconcile_unknown(now=now)

    approved.refresh_from_db()
    assert approved.state == "needs_review"
    assert "amount 2551 instead of 2550" in approved.state_reason


def test_a_late_answer_changes_nothing(shop, approved, now):
    attempt = sending._claim(approved.pk, now)
    Payout.objects.filter(pk=approved.pk).update(changed_at=now - timedelta(minutes=6))
    reconcile.reconcile_unknown(now=now)
    approved.refresh_from_db()
    assert approved.state == "approved"

    assert sending.send(payout_id=approved.pk, now=now).state == "transferred"
    late = sending.call(attempt, now=now)

    assert (late.state, len(shop.transfers(approved))) == ("transferred", 1)
    assert differences(now=now) == []


def test_a_key_in_use_is_no_failure(shop, approved, now):
    shop.double.control("fail", path="/v1/transfers", kind="409", count=ALL_TRIES)

    assert sending.send(payout_id=approved.pk, now=now).state == "unknown"

    reconcile.reconcile_unknown(now=now)
    approved.refresh_from_db()
    assert (approved.state, len(shop.transfers(approved))) == ("transferred", 1)
