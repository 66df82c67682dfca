"""Who is drafted, who is skipped and why, and that the money is set aside at once."""

from datetime import timedelta

import pytest

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.payouts.errors import NotAnOperator, PayoutMoveRefused
from portal.payouts.models import Payout
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import approvals, drafts, sending
from portal.providers.models import Provider, ProviderKind, ProviderState
from tests.factories.accounts import UserFactory
from tests.factories.payouts import balance_of, earn

pytestmark = pytest.mark.django_db


def skipped(run: drafts.DraftRun) -> list[tuple[str, str]]:
    """Return reason and detail of everyone who was skipped."""
    return [(one.reason.code, one.reason.detail) for one in run.skipped]


def test_a_draft_reserves_the_money_and_freezes_the_call(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    payout = run.payouts[0]
    assert (payout.state, payout.amount_minor, payout.period_end, run.skipped) == ("reserved", 2550, now, [])
    assert payout.attempts.get().params == {
        "amount_minor": 2550,
        "currency": "usd",
        "destination": provider.payout_account.stripe_account,
        "group": payout.public_id,
        "payout": payout.public_id,
        "provider": provider.public_id,
    }
    assert balance_of("provider_available", provider.public_id) == 0
    assert balance_of("payout_clearing", provider.public_id) == 25_500_000_000
    assert AuditEvent.objects.filter(event="payout.reserved", subject=payout.public_id).count() == 1
    assert differences(now=now) == []


def test_a_second_run_finds_the_open_row(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)
    earn(provider, minor=5000, now=now, key="later")

    run = drafts.draft_payouts(now=now + timedelta(hours=1), actor=SYSTEM_ACTOR)

    assert (run.payouts, skipped(run)) == ([], [("open_payout", "")])
    assert balance_of("provider_available", provider.public_id) == 50_000_000_000


def test_below_the_minimum_rolls_over_with_a_reason(shop, now):
    shop.provider(earned_minor=99, now=now)

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert (run.payouts, skipped(run)) == ([], [("below_minimum", "99 of 100")])


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("", ("no_account", "")),
        ("leave", ("account_not_payable", "onboarding")),
        ("review", ("account_not_payable", "in_review determining_status")),
        ("restrict", ("account_not_payable", "restricted restricted_other")),
    ],
)
def test_an_account_that_cannot_be_paid_is_skipped(shop, now, action, reason):
    shop.provider(earned_minor=2550, now=now, action=action)

    assert skipped(drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)) == [reason]
    assert Payout.objects.count() == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": ProviderKind.HOUSE}, ("house", "")),
        ({"state": ProviderState.SUSPENDED}, ("provider_not_approved", "suspended")),
    ],
)
def test_house_and_suspended_providers_are_skipped(shop, now, change, reason):
    provider = shop.provider(earned_minor=2550, now=now)
    Provider.objects.filter(pk=provider.pk).update(**change)

    assert skipped(drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)) == [reason]


def test_an_account_in_debt_at_stripe_is_skipped(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    account = provider.payout_account.stripe_account
    shop.double.store.rows("INSERT INTO lines VALUES ('txn_debt', ?, 'usd', -1, 0)", account)

    assert skipped(drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)) == [("negative_at_stripe", "")]


def test_one_provider_that_stripe_cannot_answer_for_does_not_stop_the_others(shop, now):
    first = shop.provider(earned_minor=2550, now=now)
    second = shop.provider(earned_minor=2550, now=now)
    path = f"/v2/core/accounts/{first.payout_account.stripe_account}"
    shop.double.control("fail", method="GET", path=path, kind="reset", count=3)

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert [one.provider_id for one in run.payouts] == [second.pk]
    assert [(one.provider.pk, one.reason.code) for one in run.skipped] == [(first.pk, "stripe_unavailable")]


def test_a_preview_reserves_nothing(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)

    seen = drafts.preview(now=now)

    assert [(one.provider.pk, one.amount_minor) for one in seen.due] == [(provider.pk, 2550)]
    assert (Payout.objects.count(), balance_of("payout_clearing", provider.public_id)) == (0, 0)


def test_only_operators_approve(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    payout = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts[0]

    with pytest.raises(NotAnOperator):
        approvals.approve(payout_public_id=payout.public_id, approver=UserFactory(), actor=SYSTEM_ACTOR, now=now)

    payout.refresh_from_db()
    assert (payout.state, payout.approvals.count(), provider.is_identified) == ("reserved", 0, True)


def test_a_held_payout_needs_its_approval_again(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    payout = shop.approved(provider, now=now)

    approvals.hold(payout_public_id=payout.public_id, reason="a question", actor=SYSTEM_ACTOR, now=now)
    resumed = approvals.resume(payout_public_id=payout.public_id, actor=SYSTEM_ACTOR, now=now)

    assert (resumed.state, resumed.approvals.count()) == ("reserved", 0)


def test_a_canceled_payout_frees_its_money_and_the_next_run_pays(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    payout = shop.approved(provider, now=now)

    approvals.cancel(payout_public_id=payout.public_id, reason="wrong month", actor=SYSTEM_ACTOR, now=now)

    assert balance_of("provider_available", provider.public_id) == 25_500_000_000
    again = drafts.draft_payouts(now=now + timedelta(hours=1), actor=SYSTEM_ACTOR)
    assert [one.amount_minor for one in again.payouts] == [2550]
    assert differences(now=now) == []


def test_what_was_sent_is_not_canceled(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)

    with pytest.raises(PayoutMoveRefused):
        approvals.cancel(payout_public_id=payout.public_id, reason="too late", actor=SYSTEM_ACTOR, now=now)

    assert balance_of("provider_available", provider.public_id) == 0
