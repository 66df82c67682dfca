"""A spool whose disk is lost is given up by an operator: audited, with what is unknown, and the holds come free."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from portal.audit.models import AuditEvent
from portal.billing.models import CreditLease, LeaseState
from portal.billing.services import posting, reconcile
from portal.core import clock
from portal.core.money import NANO_PER_UNIT, decimal_text
from portal.metering.models import Spool, SpoolState, UsageRecord
from portal.metering.services.spool_files import list_spools
from tests.factories.billing import Market
from tests.integration.gateway_money.rig import Goods, Process, credit_account, run

pytestmark = pytest.mark.django_db(transaction=True)

PAID = 1_000 * NANO_PER_UNIT


@pytest.fixture
def lost(tmp_path) -> tuple[Goods, str, int, int]:
    """A process that shipped two records, closed a third, and died with its disk: goods, spool, leased, charged."""
    goods = Goods(Market(paid_nano=PAID, lease_nano=0))

    async def whole():
        process = Process(tmp_path, goods=goods)
        charges = [(await process.serve()).charge_nano for _ in range(2)]
        assert await process.settlement.ship()
        await process.serve()
        (lease,) = process.credit._credit[goods.key.organization_id].pool
        process.spool.file.shut()
        process.spool._held.close()
        process.settlement.measure.stop()
        process.threads.stop()
        return process.spool.spool_id, lease.granted, sum(charges)

    found = run(whole)
    for path in list_spools(tmp_path):
        path.remove()
    return goods, *found


def _abandon(spool_id: str, reason: str = "disk of gw-2 lost") -> str:
    output = StringIO()
    call_command("replay_spool", abandon=spool_id, reason=reason, stdout=output)
    return output.getvalue()


def test_a_lost_disk_is_given_up_with_a_statement_of_what_is_unknown(lost):
    goods, spool_id, leased, charged = lost
    posting.post_all(now=clock.now())
    Spool.objects.filter(public_id=spool_id).update(seen_at=clock.now() - timedelta(minutes=3))
    held = credit_account(goods.market).held

    said = _abandon(spool_id)

    unknown = leased - charged
    assert held == unknown > 0
    assert f"{spool_id} of gateway@0 on test is given up after record 2" in said
    assert f"what it served after that is unknown: at most {decimal_text(unknown)} USD" in said
    assert Spool.objects.get(public_id=spool_id).state == SpoolState.ABANDONED
    assert set(CreditLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    account = credit_account(goods.market)
    assert (account.held, account.credits - account.debits) == (0, PAID - charged)
    assert UsageRecord.objects.count() == 2
    assert reconcile.differences(now=clock.now()) == []
    entry = AuditEvent.objects.get(event="spool.abandoned")
    assert entry.subject == spool_id
    assert entry.detail["reason"] == "disk of gw-2 lost"
    assert (entry.detail["shipped_seq"], entry.detail["unknown_nano"]) == (2, unknown)


def test_charges_that_were_shipped_and_not_yet_booked_are_not_unknown(lost):
    goods, spool_id, leased, charged = lost
    Spool.objects.filter(public_id=spool_id).update(seen_at=clock.now() - timedelta(minutes=3))

    said = _abandon(spool_id)
    posting.post_all(now=clock.now())

    assert f"at most {decimal_text(leased - charged)} USD" in said
    assert "1 leases close as soon as their shipped charges are booked" in said
    account = credit_account(goods.market)
    assert (account.held, account.credits - account.debits) == (0, PAID - charged)
    assert reconcile.differences(now=clock.now()) == []


def test_a_spool_that_was_heard_of_a_moment_ago_is_not_given_up(lost):
    goods, spool_id, *_ = lost
    held = credit_account(goods.market).held

    with pytest.raises(CommandError, match="it is not lost"):
        _abandon(spool_id)

    assert Spool.objects.get(public_id=spool_id).state == SpoolState.OPEN
    assert credit_account(goods.market).held == held > 0


def test_giving_up_needs_a_reason(lost):
    with pytest.raises(CommandError, match="--abandon needs --reason"):
        _abandon(lost[1], reason=" ")
