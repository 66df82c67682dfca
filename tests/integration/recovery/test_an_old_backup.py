"""A backup of yesterday is restored while Stripe and the nodes know today: nobody is paid or charged twice."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import FoundObject, Recovery, Refund, TopUp, UsagePosting
from portal.billing.services import freeze, posting, receipts, refund_sending, refunds, topups
from portal.core import clock
from portal.metering.models import UsageRecord
from portal.payouts.errors import PayoutNotSendable
from portal.payouts.models import Payout
from portal.payouts.services import drafts, ledger_checks, runs, sending
from portal.providers.models import Provider
from tests import backups
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import Market, ServingNodeFactory
from tests.factories.payouts import balance_of, earn
from tests.factories.receipts import PUBLIC_KEY, SEED, claim_of, serve

pytestmark = pytest.mark.django_db(transaction=True)

DAY_S = 86_400


@pytest.fixture
def backup():
    made = backups.of_this_database()
    made.take()
    yield made
    made.forget()


@pytest.fixture
def world(shop, settings):
    """Yesterday: one customer has paid, two providers have earned, one payout is approved, one node serves."""
    settings.RECEIPT_SIGNING_KEY = SEED
    settings.PAYOUT_HOLD_DAYS = 0
    now = clock.now() - timedelta(hours=25)
    shop.fund(100_000)
    bought = shop.buy(amount=5_000, now=now)
    topups.fulfil(topup_id=bought.pk, now=now)
    approved = shop.approved(shop.provider(earned_minor=2_550, now=now), now=now)
    later = shop.provider(earned_minor=4_000, now=now)
    market = Market(node=ServingNodeFactory(public_key=PUBLIC_KEY))
    return Yesterday(shop, bought, approved, later, market, shop.customer())


class Yesterday:
    def __init__(self, shop, bought: TopUp, approved: Payout, later: Provider, market: Market, buyer) -> None:
        self.shop, self.bought, self.approved, self.later, self.market = shop, bought, approved, later, market
        self.buyer = buyer

    def live_on(self, tmp_path: Path) -> dict[str, object]:
        """Today: both providers are paid, credit is bought and given back, usage is served and receipted."""
        now = clock.now()
        sending.send(payout_id=self.approved.pk, now=now)
        second = self.shop.approved(self.later, now=now)
        sending.send(payout_id=second.pk, now=now)
        new = self.shop.start(*self.buyer, amount=3_000, now=now, key="today")
        self.shop.post_page(new.checkout_url, "pay")
        topups.fulfil(topup_id=new.pk, now=now)
        refund = refunds.give(topup=self.bought, amount_minor=1_000, note="", actor=SYSTEM_ACTOR, now=now)
        self.shop.double.control("clock/advance", seconds=1)
        refund_sending.send(refund_id=refund.pk, now=now)
        record = serve(self.market, at=now - timedelta(minutes=5))
        posting.post_all(now=now)
        (outcome,) = receipts.countersign(node_id=self.market.node.pk, claims=[claim_of(record)], now=now)
        file = tmp_path / "receipts.jsonl"
        file.write_text(json.dumps(outcome.receipt) + "\n")
        return {
            "second": second.public_id,
            "topup": new.public_id,
            "organization": new.organization.public_id,
            "refund": Refund.objects.get(pk=refund.pk).stripe_refund,
            "record": record,
            "receipts": file,
        }


def recover(*arguments: str) -> str:
    told = StringIO()
    call_command("recover", *arguments, stdout=told)
    return told.getvalue()


def transfers(shop) -> dict[str, int]:
    return {one["transfer_group"]: one["amount"] for one in shop.double.store.all("transfer")}


def test_a_day_old_backup_under_a_newer_stripe_pays_nobody_twice_however_often_it_is_recovered(
    shop, world, backup, tmp_path
):
    made_up = gaps()
    today = world.live_on(tmp_path)
    sent = transfers(shop)
    assert sent == {world.approved.public_id: 2_550, today["second"]: 4_000}
    record = today["record"]
    backup.restore()
    shop.double.control("clock/advance", seconds=DAY_S + 3_600)  # Stripe remembers no key of yesterday
    assert Payout.objects.get(pk=world.approved.pk).state == "approved"
    assert not TopUp.objects.filter(public_id=today["topup"]).exists()

    with pytest.raises(CommandError, match="not in the books"):
        recover("--after-restore")
    assert not Recovery.objects.exists()
    told = recover("--after-restore", "--apply", "--receipts", str(today["receipts"]))

    assert "4 imported" in told, told
    assert "1 attempts to take over" in told
    booked = taken_over()
    assert booked == 3
    again = recover("--after-restore", "--apply", "--receipts", str(today["receipts"]))
    assert "0 attempts to take over" in again
    assert "0 objects at Stripe are not in the books" in again
    assert (taken_over(), Recovery.objects.count()) == (booked, 1)
    with pytest.raises(PayoutNotSendable, match="being recovered"):
        sending.send(payout_id=world.approved.pk, now=clock.now())
    recover("--thaw")
    for _ in range(2):
        drafts.draft_payouts(now=clock.now(), actor=SYSTEM_ACTOR)
        runs.run(now=clock.now())
    assert transfers(shop) == sent
    assert {row.public_id: (row.state, row.stripe_transfer is not None) for row in Payout.objects.all()} == {
        world.approved.public_id: ("transferred", True),
        today["second"]: ("transferred", True),
    }
    assert balance_of("provider_available", world.later.public_id) == 0
    topup = TopUp.objects.get(public_id=today["topup"])
    assert (topup.state, topup.organization.public_id) == ("paid", today["organization"])
    assert balance_of("customer_credit", today["organization"]) == 30 * 10**9
    assert Refund.objects.get().stripe_refund == today["refund"]
    taken = UsageRecord.objects.get(request_id=record.request_id)
    assert (taken.charge_nano, taken.tunnel_proof) == (record.charge_nano, record.tunnel_proof)
    assert UsagePosting.objects.get(request_id=record.request_id).charge_nano == record.charge_nano
    assert [(one.state, one.frozen_nano >= 0) for one in FoundObject.objects.order_by("pk")] == [("imported", True)] * 4
    assert ledger_checks.check(now=clock.now(), with_stripe=False).differences == ()
    assert gaps() == made_up


def taken_over() -> int:
    """Return how many things were taken over, by the audit log."""
    return AuditEvent.objects.filter(event__in=["payout.recovered", "topup.recovered", "usage.recovered"]).count()


def gaps() -> dict[str, int]:
    """Return what Stripe and the books differ in, by source: what the factories made up is at no Stripe."""
    found = ledger_checks.check(now=clock.now()).differences
    return {one.subject: int(one.expected) - int(one.actual) for one in found if one.code.startswith("stripe_")}


def test_what_nothing_explains_stays_set_aside_and_no_lost_id_is_given_again(shop, world, backup):
    now = clock.now()
    stranger = OrganizationFactory()
    lost = shop.buy(amount=2_000, now=now, key="lost")
    payment = topups.fulfil(topup_id=lost.pk, now=now).payment_intent
    organization = lost.organization.public_id
    backup.restore()
    assert stranger.public_id != organization

    told = recover("--after-restore", "--apply")

    assert "UNEXPLAINED topup" in told
    assert "no organization of this pool bought it" in told
    assert balance_of("frozen", organization) == 20 * 10**9
    assert OrganizationFactory().pk > stranger.pk + 900_000
    with pytest.raises(CommandError, match="recovery_open"):
        freeze_again()
    assert "1 objects stay set aside" in recover("--thaw")
    assert balance_of("frozen", organization) == 20 * 10**9
    with pytest.raises(CommandError, match="--release needs --reason"):
        recover("--release", payment)
    assert "20 went back" in recover("--release", payment, "--reason", "refunded at Stripe")
    assert balance_of("frozen", organization) == 0
    assert "UNEXPLAINED" not in recover("--after-restore", "--apply")
    with pytest.raises(CommandError, match="no unexplained object"):
        recover("--release", payment, "--reason", "twice")


def freeze_again() -> None:
    try:
        freeze.begin(known_until=clock.now(), actor=SYSTEM_ACTOR, now=clock.now())
    except freeze.AlreadyFrozen as error:
        raise CommandError(error.code) from error


def test_while_it_is_open_no_run_reserves_and_no_refund_leaves(shop, world):
    now = clock.now()
    freeze.begin(known_until=now, actor=SYSTEM_ACTOR, now=now)
    provider = Provider.objects.get(pk=world.later.pk)
    earn(provider, minor=100, now=now, key="more")

    refund = refunds.give(topup=world.bought, amount_minor=100, note="", actor=SYSTEM_ACTOR, now=now)
    assert refund_sending.send(refund_id=refund.pk, now=now).state == "reserved"
    assert drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts == []
    assert transfers(shop) == {}
