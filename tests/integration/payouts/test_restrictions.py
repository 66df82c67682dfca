"""The account is restricted while a payout is under way: what happens at each of its steps."""

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.payouts.models import Payout
from portal.payouts.selectors import reconcile as checks
from portal.payouts.services import accounts, approvals, drafts, sending
from portal.payouts.services import reconcile as reconciling
from tests.factories.accounts import UserFactory
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db

NANO = 10_000_000


def restrict(shop, provider, move: str = "restrict"):
    """Let Stripe stop the account."""
    shop.double.control("account", account=provider.payout_account.stripe_account, move=move)


def books(provider) -> tuple[int, int]:
    """Return available and set aside, in minor units."""
    kinds = ("provider_available", "payout_clearing")
    available, clearing = (balance_of(kind, provider.public_id) // NANO for kind in kinds)
    return available, clearing


@pytest.fixture
def provider(shop, now):
    """A provider with 25.50 earned, and a pool that has the money."""
    shop.fund(10_000)
    return shop.provider(earned_minor=2550, now=now)


@pytest.mark.parametrize("move", ["restrict", "lapse", "close", "refuse"])
def test_before_the_draft_it_is_skipped_with_stripes_reason(shop, provider, now, move):
    restrict(shop, provider, move)

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    (skipped,) = run.skipped
    assert (run.payouts, skipped.reason.code) == ([], "account_not_payable")
    assert skipped.reason.detail.split()[0] in {"restricted", "closed", "unsupported"}
    assert books(provider) == (2550, 0)


def test_reserved_it_is_rejected_and_released_when_it_is_sent(shop, provider, now):
    (payout,) = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts
    restrict(shop, provider)
    operator = UserFactory(is_operator=True)
    approvals.approve(payout_public_id=payout.public_id, approver=operator, actor=SYSTEM_ACTOR, now=now)

    done = sending.send(payout_id=payout.pk, now=now)

    assert (done.state, done.state_reason) == ("rejected", "account_restricted: restricted_other")
    assert (books(provider), shop.transfers(payout)) == ((2550, 0), [])


def test_approved_it_is_rejected_and_the_next_run_makes_a_new_one(shop, provider, now):
    payout = shop.approved(provider, now=now)
    restrict(shop, provider)
    assert sending.send(payout_id=payout.pk, now=now).state == "rejected"
    shop.double.control("account", account=payout.destination, move="complete")

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert [one.amount_minor for one in run.payouts] == [2550]
    assert Payout.objects.count() == 2


def test_between_the_look_and_the_call_stripe_itself_refuses(shop, provider, now, monkeypatch):
    payout = shop.approved(provider, now=now)
    call = sending.call

    def restrict_then_call(attempt, *, now):
        restrict(shop, provider)
        return call(attempt, now=now)

    monkeypatch.setattr(sending, "call", restrict_then_call)
    done = sending.send(payout_id=payout.pk, now=now)

    assert done.state == "rejected"
    assert (books(provider), shop.transfers(payout)) == ((2550, 0), [])


def test_in_doubt_it_is_found_out_before_anything_is_released(shop, provider, now):
    payout = shop.approved(provider, now=now)
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="after", count=3)
    assert sending.send(payout_id=payout.pk, now=now).state == "unknown"
    restrict(shop, provider)

    done = reconciling.reconcile(payout_id=payout.pk, now=now)

    assert (done.state, len(shop.transfers(payout)), books(provider)) == ("transferred", 1, (0, 0))


def test_transferred_it_is_shown_and_nothing_is_booked(shop, provider, now):
    payout = shop.approved(provider, now=now)
    sending.send(payout_id=payout.pk, now=now)
    restrict(shop, provider)

    row = accounts.refresh(provider_id=provider.public_id, now=now)

    payout.refresh_from_db()
    assert (row.state, payout.state, books(provider)) == ("restricted", "transferred", (0, 0))
    assert checks.differences(now=now) == []
