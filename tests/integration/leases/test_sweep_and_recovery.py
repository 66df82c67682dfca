"""What nobody asks for any more returns; what a disaster left wrong is said, and repaired when told to."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from portal.audit.models import AuditEvent
from portal.billing.models import BudgetWindow, CreditLease, LeaseState, LedgerAccount
from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask
from portal.billing.services import abandoning, budgets, lease_sweep, reconcile, recovery
from portal.core import clock
from portal.metering.errors import SpoolClosed, SpoolNotEmpty, SpoolUnknown, UsageConflict
from portal.metering.models import Spool, SpoolState
from portal.metering.services import ingest, spools
from tests.factories import metering
from tests.factories.billing import OPENED, Market, budget_of

pytestmark = pytest.mark.django_db

HOLD = 1_000_000
LONG_AGO = timedelta(days=1)


def _credit(market: Market) -> LedgerAccount:
    return LedgerAccount.objects.get(code=f"customer_credit:{market.customer.public_id}")


def test_an_expired_lease_of_a_drained_spool_is_closed():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    spools.mark_drained(public_id=market.spool.public_id, now=OPENED)

    swept = lease_sweep.sweep(now=OPENED + leasing.TERM)

    assert (swept.fenced, swept.closed) == (1, 1)
    assert _credit(market).held == 0


def test_an_expired_lease_of_an_open_spool_waits_for_its_records():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)

    swept = lease_sweep.sweep(now=OPENED + leasing.TERM)

    assert (swept.fenced, swept.closed) == (1, 0)
    assert CreditLease.objects.get().state == LeaseState.CLOSING
    assert _credit(market).held == 10 * HOLD


def test_a_lost_spool_is_given_up_once_and_audited():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    market.serve(charge_nano=HOLD)
    now = OPENED + timedelta(days=60)

    lost = abandoning.abandon(spool_id=market.spool.public_id, reason="disk lost", actor=metering.ACTOR, now=now)
    with pytest.raises(SpoolClosed):
        abandoning.abandon(spool_id=market.spool.public_id, reason="again", actor=metering.ACTOR, now=now)

    assert (lost.shipped_seq, lost.leases_waiting) == (1, 1)
    assert Spool.objects.get().state == SpoolState.ABANDONED
    assert _credit(market).held == HOLD
    event = AuditEvent.objects.get(event="spool.abandoned")
    assert (event.subject, event.detail["reason"]) == (market.spool.public_id, "disk lost")


def test_a_spool_that_was_heard_of_just_now_is_not_given_up():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    spools.touch(public_id=market.spool.public_id, now=OPENED)

    with pytest.raises(SpoolNotEmpty):
        abandoning.abandon(
            spool_id=market.spool.public_id, reason="slip", actor=metering.ACTOR, now=OPENED + timedelta(seconds=60)
        )
    with pytest.raises(SpoolUnknown):
        abandoning.abandon(spool_id="spool_never", reason="slip", actor=metering.ACTOR, now=OPENED)

    assert Spool.objects.get().state == SpoolState.OPEN
    assert _credit(market).held == 10 * HOLD


def test_the_command_gives_up_only_with_a_reason():
    market = Market(paid_nano=100 * HOLD, lease_nano=HOLD)

    with pytest.raises(CommandError, match="--reason"):
        call_command("replay_spool", abandon=market.spool.public_id)
    output = StringIO()
    call_command("replay_spool", abandon=market.spool.public_id, reason="disk lost", stdout=output)

    assert "is given up after record 0" in output.getvalue()
    assert AuditEvent.objects.get(event="spool.abandoned").actor.startswith("shell:")


def test_the_command_lists_open_spools():
    market = Market(lease_nano=0)
    output = StringIO()

    call_command("replay_spool", list=True, stdout=output)

    assert market.spool.public_id in output.getvalue()


def _budget(market: Market) -> BudgetWindow:
    market.key.budget_cap_nano = 10 * HOLD
    market.key.save()
    ask = Ask(HOLD, HOLD)
    budgets.grant(terms=budget_of(market.key), spool_id=market.spool.pk, ask=ask, window_at=OPENED, now=OPENED)
    return BudgetWindow.objects.get()


def test_nothing_differs_where_everything_went_its_way():
    market = Market(paid_nano=100 * HOLD, promo_nano=HOLD, lease_nano=10 * HOLD)
    _budget(market)
    output = StringIO()

    call_command("recover", stdout=output)

    assert output.getvalue() == "nothing differs\n"


def test_the_ledger_check_names_refused_usage():
    market = Market(lease_nano=0)
    row = metering.usage_row(spool_id=market.spool.public_id)
    ingest.refuse(spool=market.spool.public_id, row=row, error=UsageConflict("stored with other content"), now=OPENED)

    (found,) = reconcile.differences(now=OPENED)

    assert (found.code, found.subject) == ("usage_refused", f"{market.spool.public_id}/1")


def test_recover_says_what_differs_and_changes_nothing():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    LedgerAccount.objects.filter(pk=_credit(market).pk).update(held=F("held") + 5 * HOLD)
    output = StringIO()

    with pytest.raises(CommandError, match="1 differences"):
        call_command("recover", stdout=output)

    assert "15000000 nano held, leases say 10000000" in output.getvalue()
    assert _credit(market).held == 15 * HOLD
    assert not AuditEvent.objects.filter(event="credit.holds_recovered").exists()


@pytest.mark.parametrize("wrong", [5 * HOLD, -5 * HOLD])
def test_recover_repairs_held_credit_and_leased_budgets_and_audits_it(wrong):
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    window = _budget(market)
    LedgerAccount.objects.filter(pk=_credit(market).pk).update(held=F("held") + wrong)
    BudgetWindow.objects.update(leased_nano=7 * HOLD)
    CreditLease.objects.update(expires_at=clock.now() + LONG_AGO)

    call_command("recover", apply=True, stdout=StringIO())

    window.refresh_from_db()
    assert (_credit(market).held, window.leased_nano) == (10 * HOLD, HOLD)
    assert recovery.examine() == []
    changes = AuditEvent.objects.filter(event="credit.holds_recovered").order_by("pk").values_list("detail", flat=True)
    assert [change["change_nano"] for change in changes] == [str(-wrong), str(-6 * HOLD)]


def test_an_amount_that_was_repaired_meanwhile_is_left_alone():
    market = Market(paid_nano=100 * HOLD, lease_nano=10 * HOLD)
    LedgerAccount.objects.filter(pk=_credit(market).pk).update(held=F("held") + HOLD)
    (difference,) = recovery.examine()
    recovery.repair(difference=difference, actor=metering.ACTOR, now=OPENED)

    change = recovery.repair(difference=difference, actor=metering.ACTOR, now=OPENED)

    assert change == 0
    assert AuditEvent.objects.filter(event="credit.holds_recovered").count() == 1
