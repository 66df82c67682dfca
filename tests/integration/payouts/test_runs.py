"""A run: drafted, checked, approved by the hash of what was seen, sent; and nobody is left out without a reason."""

from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger
from portal.core import clock
from portal.payouts import tasks
from portal.payouts.errors import NotAnOperator, PayoutMoveRefused, RunChanged, RunNotClean
from portal.payouts.models import Payout, PayoutRun, RunSkip
from portal.payouts.rules import findings as rules
from portal.payouts.selectors import runs as selectors
from portal.payouts.services import approvals, drafts, run_approvals, run_checks, runs
from tests.factories.accounts import UserFactory
from tests.factories.payouts import earn
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(shop, now) -> PayoutRun:
    """A run with two payouts of 25.50 and one provider skipped; the platform can pay."""
    for _ in range(2):
        shop.provider(earned_minor=2550, now=now)
    shop.provider(earned_minor=99, now=now, action="")
    shop.fund(10_000)
    return drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).run


def approve(run: PayoutRun, now: datetime, *, seen: str = "", approver=None) -> run_approvals.RunApproval:
    """Approve as an operator who has just seen the run."""
    return run_approvals.approve(
        run_id=run.public_id,
        seen_hash=seen or selectors.current_hash(run=run),
        approver=approver or UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )


def states() -> set[str]:
    """Return the states of all payouts."""
    return set(Payout.objects.values_list("state", flat=True))


def test_a_run_keeps_its_payouts_and_everyone_it_skipped_with_reason_and_amount(run):
    (total,) = selectors.totals(run=run)
    (skipped,) = selectors.skips_of(run=run)

    assert (total.state, total.count, total.amount_minor) == ("reserved", 2, 5100)
    assert (skipped.reason.code, skipped.reason.detail) == ("below_minimum", "99 of 100")
    assert skipped.skip.available_nano == 990_000_000


def test_a_clean_run_is_approved_as_a_whole_and_sent(shop, run, now):
    run_checks.check(run_id=run.public_id, now=now)

    done = approve(run, now)
    runs.run(now=now)

    assert (len(done.approved), done.waiting, states()) == (2, 0, {"transferred"})
    assert AuditEvent.objects.filter(event="payout_run.approved", subject=run.public_id).count() == 1


def test_a_run_that_nobody_checked_is_not_approved(run, now):
    with pytest.raises(RunNotClean, match="not checked"):
        approve(run, now)

    assert states() == {"reserved"}


def test_a_check_older_than_a_day_does_not_count(run, now):
    run_checks.check(run_id=run.public_id, now=now)

    with pytest.raises(RunNotClean, match="older than a day"):
        approve(run, now + rules.GOOD_FOR + timedelta(seconds=1))

    assert states() == {"reserved"}


def test_a_ledger_that_differs_stops_the_run(run, now):
    account = ledger.account(Kind.PAYOUT_CLEARING, Payout.objects.first().provider.public_id, currency="usd")
    Payout.objects.filter(pk=Payout.objects.first().pk).update(amount_minor=1)

    checked = run_checks.check(run_id=run.public_id, now=now)

    found = {one["id"]: one for one in checked.findings}
    assert (found["ledger"]["status"], account.owner in found["ledger"]["detail"]) == ("fail", True)
    with pytest.raises(RunNotClean, match="ledger"):
        approve(run, now)


def test_a_balance_that_does_not_cover_the_run_stops_it(shop, now):
    shop.provider(earned_minor=2550, now=now)
    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).run

    checked = run_checks.check(run_id=run.public_id, now=now)

    found = {one["id"]: one["status"] for one in checked.findings}
    assert found["cover"] == "fail"
    with pytest.raises(RunNotClean, match="cover"):
        approve(run, now)


def test_the_doctors_red_flags_stop_the_run(run, now, settings):
    settings.STRIPE_EVENTS_SECRET = ""

    run_checks.check(run_id=run.public_id, now=now)

    with pytest.raises(RunNotClean, match="stripe_events_secret"):
        approve(run, now)


def test_one_payout_alone_is_approved_behind_the_check_of_its_run(run, now, settings):
    by, secret = UserFactory(is_operator=True), settings.STRIPE_EVENTS_SECRET
    one, other = Payout.objects.order_by("pk").values_list("public_id", flat=True)
    given = {"approver": by, "actor": SYSTEM_ACTOR, "now": now}

    settings.STRIPE_EVENTS_SECRET = ""
    with pytest.raises(RunNotClean, match="stripe_events_secret"):
        run_approvals.approve_one(payout_public_id=one, **given)
    assert states() == {"reserved"}
    settings.STRIPE_EVENTS_SECRET = secret
    run_approvals.approve_one(payout_public_id=one, **given)
    with pytest.raises(NotAnOperator):
        run_approvals.approve_one(payout_public_id=other, **given | {"approver": UserFactory()})
    assert states() == {"approved", "reserved"}
    run_approvals.approve_one(payout_public_id=other, **given)

    assert states() == {"approved"}


def test_any_change_of_the_run_voids_what_was_seen(run, now):
    run_checks.check(run_id=run.public_id, now=now)
    seen = selectors.current_hash(run=run)
    approvals.cancel(
        payout_public_id=Payout.objects.first().public_id, reason="a question", actor=SYSTEM_ACTOR, now=now
    )

    with pytest.raises(RunChanged):
        approve(run, now, seen=seen)
    with pytest.raises(RunNotClean, match="has changed since it was checked"):
        approve(run, now)

    assert states() == {"reserved", "canceled"}


def test_two_different_operators_approve_where_two_are_needed(run, now, settings):
    settings.PAYOUT_APPROVERS = 2
    run_checks.check(run_id=run.public_id, now=now)
    first, second = UserFactory(is_operator=True), UserFactory(is_operator=True)

    assert approve(run, now, approver=first).waiting == 2
    assert approve(run, now, approver=first).waiting == 2
    assert (states(), selectors.approvers_of(run=run)) == ({"reserved"}, [first.email])
    assert len(approve(run, now, approver=second).approved) == 2


def test_only_operators_approve_a_run(run, now):
    run_checks.check(run_id=run.public_id, now=now)

    with pytest.raises(NotAnOperator):
        approve(run, now, approver=UserFactory())

    assert states() == {"reserved"}


def test_what_one_operator_cancels_another_does_not_send(run, now):
    payout = Payout.objects.first()
    approvals.cancel(payout_public_id=payout.public_id, reason="a question", actor=SYSTEM_ACTOR, now=now)

    with pytest.raises(PayoutMoveRefused):
        approvals.approve(
            payout_public_id=payout.public_id,
            approver=UserFactory(is_operator=True),
            actor=SYSTEM_ACTOR,
            now=now,
        )


def test_new_runs_are_checked_by_themselves(shop, run):
    tasks.check_runs()

    run.refresh_from_db()
    assert run.checked_hash == selectors.current_hash(run=run)
    assert selectors.unchecked() == []


def test_the_schedule_drafts_once_a_month(shop, now, settings):
    settings.PAYOUT_SCHEDULE, settings.PAYOUT_DAY = "monthly", 2
    provider = shop.provider(earned_minor=2550, now=now)
    first = datetime(2026, 11, 2, 12, tzinfo=UTC)

    assert len(drafts.draft_due(now=first, actor=SYSTEM_ACTOR).payouts) == 1
    Payout.objects.update(state="transferred", stripe_transfer="tr_1")
    earn(provider, minor=5000, now=now, key="2")

    later = [datetime(2026, 11, 30, 23, 59, tzinfo=UTC), datetime(2026, 12, 1, 23, 59, tzinfo=UTC)]
    assert [drafts.draft_due(now=at, actor=SYSTEM_ACTOR).run for at in later] == [None, None]
    assert len(drafts.draft_due(now=datetime(2026, 12, 2, tzinfo=UTC), actor=SYSTEM_ACTOR).payouts) == 1
    assert [run.origin for run in PayoutRun.objects.order_by("pk")] == ["schedule", "schedule"]


def test_the_schedule_drafts_nothing_where_it_is_manual(shop, now):
    shop.provider(earned_minor=2550, now=now)

    drafted = drafts.draft_due(now=now, actor=SYSTEM_ACTOR)

    assert (drafted.payouts, PayoutRun.objects.count()) == ([], 0)


def test_a_scheduled_run_that_can_pay_nobody_leaves_no_trace(shop, now, settings):
    settings.PAYOUT_SCHEDULE = "threshold"
    settings.PAYOUT_THRESHOLD_MINOR = 2000
    shop.provider(earned_minor=2550, now=now, action="leave")

    drafted = drafts.draft_due(now=now, actor=SYSTEM_ACTOR)

    assert [one.reason.code for one in drafted.skipped] == ["account_not_payable"]
    assert (PayoutRun.objects.count(), RunSkip.objects.count()) == (0, 0)


def test_an_operator_sees_checks_and_approves_a_run(shop, world: World):
    now = clock.now()
    shop.provider(earned_minor=2550, now=now)
    shop.provider(earned_minor=99, now=now)
    shop.fund(10_000)
    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).run
    operator = world.client(world.operator)
    url = reverse("operators:payout-run", args=[run.public_id])

    before = operator.get(url).content.decode()
    operator.post(reverse("operators:payout-run-check", args=[run.public_id]))
    ready = operator.get(url).content.decode()
    answer = operator.post(
        reverse("operators:payout-run-approve", args=[run.public_id]), {"hash": selectors.current_hash(run=run)}
    )

    assert "It cannot be approved now." in before
    assert "The available balance is below the smallest payout." in before
    assert ("Approve the run" in ready, answer.status_code, states()) == (True, 302, {"approved"})


def test_the_page_of_another_run_does_not_approve_this_one(run, world: World, now):
    run_checks.check(run_id=run.public_id, now=now)

    answer = world.client(world.operator).post(
        reverse("operators:payout-run-approve", args=[run.public_id]), {"hash": "f" * 64}
    )

    assert (answer.status_code, states()) == (409, {"reserved"})
