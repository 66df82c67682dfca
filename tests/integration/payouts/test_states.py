"""Every state a payout can be in: how it gets there, what is booked, what its page says, and what leads out of it."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.integrations import stripe
from portal.payouts.models import Payout, PayoutState
from portal.payouts.rules import states
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import approvals, bank, drafts, reconcile, reviews, runs, sending
from portal.providers.models import Provider
from tests.factories.payouts import PayoutFactory, balance_of
from tests.world import World

pytestmark = pytest.mark.django_db
PAID = 25_500_000_000
TRANSFERS = "/v1/transfers"


@pytest.fixture
def provider(shop, now) -> Provider:
    """A provider with 25.50 that can be paid."""
    return shop.provider(earned_minor=2550, now=now)


@pytest.fixture
def approved(shop, provider, now) -> Payout:
    """Its approved payout; the platform can pay."""
    shop.fund(10_000)
    return shop.approved(provider, now=now)


def balances(provider: Provider) -> tuple[int, int]:
    """Return what is available and what is set aside."""
    return balance_of("provider_available", provider.public_id), balance_of("payout_clearing", provider.public_id)


@pytest.mark.parametrize("state", sorted(PayoutState.values))
def test_every_state_has_a_page_text_for_the_provider_and_the_operator(world: World, state):
    transfer = "tr_1" if state in {"transferred", "reversed"} else None
    payout = PayoutFactory(provider=world.provider, state=state, stripe_transfer=transfer, state_reason="said why")

    for client, url in (
        (world.client(world.supplier.owner), reverse("provider:payout", args=[payout.public_id])),
        (world.client(world.supplier.owner), reverse("provider:payouts")),
        (world.client(world.operator), reverse("operators:payout", args=[payout.public_id])),
    ):
        page = client.get(url).content.decode().replace("&#x27;", "'")
        assert states.MEANINGS[state] in page
        assert "said why" in page


def test_held_keeps_the_money_set_aside_until_it_is_resumed_and_approved_anew(approved, provider, now):
    held = approvals.hold(payout_public_id=approved.public_id, reason="a question", actor=SYSTEM_ACTOR, now=now)

    assert (held.state, held.state_reason, balances(provider)) == ("held", "a question", (0, PAID))
    assert runs.run(now=now).sent == {}
    resumed = approvals.resume(payout_public_id=approved.public_id, actor=SYSTEM_ACTOR, now=now)
    assert (resumed.state, resumed.approvals.count()) == ("reserved", 0)


def test_a_held_payout_is_sent_by_no_other_way(approved, now):
    approvals.hold(payout_public_id=approved.public_id, reason="a question", actor=SYSTEM_ACTOR, now=now)

    for attempt in (
        lambda: sending.send(payout_id=approved.pk, now=now),
        lambda: reviews.retry(payout_public_id=approved.public_id, actor=SYSTEM_ACTOR, now=now),
    ):
        with pytest.raises(Exception, match="held"):
            attempt()

    approved.refresh_from_db()
    assert approved.state == "held"


def test_rejected_frees_the_money_with_its_maturity_and_the_next_run_pays_it(shop, approved, provider, now):
    shop.double.control("account", account=approved.destination, move="restrict")
    rejected = sending.send(payout_id=approved.pk, now=now)
    shop.double.control("account", account=approved.destination, move="complete")

    assert (rejected.state, balances(provider)) == ("rejected", (PAID, 0))
    again = drafts.draft_payouts(now=now + timedelta(seconds=1), actor=SYSTEM_ACTOR)
    assert [(one.amount_minor, one.state) for one in again.payouts] == [(2550, "reserved")]
    assert differences(now=now) == []


def test_canceled_frees_the_money_with_its_maturity_and_the_next_run_pays_it(approved, provider, now):
    canceled = approvals.cancel(payout_public_id=approved.public_id, reason="no", actor=SYSTEM_ACTOR, now=now)

    assert (canceled.state, balances(provider)) == ("canceled", (PAID, 0))
    again = drafts.draft_payouts(now=now + timedelta(seconds=1), actor=SYSTEM_ACTOR)
    assert [one.amount_minor for one in again.payouts] == [2550]
    assert differences(now=now) == []


def test_waiting_funds_gets_a_new_attempt_key_and_is_sent_once_there_are_funds(shop, provider, now):
    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)
    keys = list(payout.attempts.order_by("number").values_list("idempotency_key", flat=True))
    assert (payout.state, balances(provider)) == ("waiting_funds", (0, PAID))
    assert keys == [f"payout:{payout.public_id}:1", f"payout:{payout.public_id}:2"]
    assert runs.run(now=now).waiting == [payout.public_id]

    shop.fund(10_000)
    runs.run(now=now)

    payout.refresh_from_db()
    assert (payout.state, len(shop.transfers(payout))) == ("transferred", 1)


def test_unknown_keeps_the_reservation_and_is_looked_up(shop, approved, provider, now):
    shop.double.control("fail", path=TRANSFERS, kind="reset", when="after", count=3)

    unknown = sending.send(payout_id=approved.pk, now=now)
    assert (unknown.state, balances(provider)) == ("unknown", (0, PAID))
    found = reconcile.reconcile(payout_id=approved.pk, now=now)

    assert (found.state, len(shop.transfers(approved))) == ("transferred", 1)
    assert differences(now=now) == []


def test_needs_review_waits_for_a_person_who_sees_what_stripe_has(shop, approved, provider, now):
    shop.double.control("fail", path=TRANSFERS, kind="reset", when="before", count=100)
    sending.send(payout_id=approved.pk, now=now)
    in_review = reconcile.reconcile(payout_id=approved.pk, now=now + stripe.SAME_KEY_FOR)

    assert (in_review.state, balances(provider)) == ("needs_review", (0, PAID))
    assert reviews.listing(payout_public_id=approved.public_id) == []
    assert runs.run(now=now + stripe.SAME_KEY_FOR).sent == {}
    released = reviews.release(payout_public_id=approved.public_id, reason="never made", actor=SYSTEM_ACTOR, now=now)
    assert (released.state, balances(provider)) == ("rejected", (PAID, 0))


def test_reversed_in_parts_books_each_part_once_and_ends_when_all_is_back(shop, approved, provider, now):
    sent = sending.send(payout_id=approved.pk, now=now)
    seen = []
    for amount in (1000, 1550):
        shop.double.control("reverse", transfer=sent.stripe_transfer, amount=amount)
        bank.note_transfer(transfer=sent.stripe_transfer, now=now)
        after = bank.note_transfer(transfer=sent.stripe_transfer, now=now)
        seen.append((after.state, after.reversed_minor, balances(provider)[0]))

    assert seen == [("transferred", 1000, 10_000_000_000), ("reversed", 2550, PAID)]
    assert differences(now=now) == []


def test_after_a_reversal_the_next_run_pays_the_one_net_balance(shop, approved, provider, now):
    sent = sending.send(payout_id=approved.pk, now=now)
    shop.double.control("reverse", transfer=sent.stripe_transfer, amount=550)
    bank.note_transfer(transfer=sent.stripe_transfer, now=now)

    again = drafts.draft_payouts(now=now + timedelta(seconds=1), actor=SYSTEM_ACTOR)

    assert [one.amount_minor for one in again.payouts] == [550]


def test_the_frozen_parameters_go_with_the_key(shop, approved, now):
    shop.double.control("fail", path=TRANSFERS, kind="429")
    sending.send(payout_id=approved.pk, now=now)
    sending.send(payout_id=approved.pk, now=now)

    (transfer,) = shop.transfers(approved)
    assert (transfer["amount"], approved.attempts.count()) == (2550, 1)


def test_what_is_below_the_minimum_says_so_on_the_providers_page(shop, world: World):
    from tests.factories.payouts import earn

    shop.onboard(world.provider, action="complete", now=clock.now())
    earn(world.provider, minor=99, now=clock.now())

    page = world.client(world.supplier.owner).get(reverse("provider:payouts")).content.decode()

    assert "Not paid in the next run." in page


def test_earnings_in_another_currency_are_not_added_up(shop, provider, now, settings):
    settings.CURRENCY = "eur"

    with pytest.raises(Exception, match="is kept in usd, not eur"):
        drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert Payout.objects.count() == 0


def test_what_a_country_needs_rolls_over_with_its_reason(shop, now, settings):
    settings.PAYOUT_COUNTRY_MINIMUMS = {"DE": 5000}
    shop.provider(earned_minor=2550, now=now)

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert [(one.reason.code, one.reason.detail) for one in run.skipped] == [("below_country_minimum", "2550 of 5000")]


def test_a_schedule_that_fires_twice_drafts_once(shop, provider, now, settings):
    settings.PAYOUT_SCHEDULE = "monthly"

    first = drafts.draft_due(now=now, actor=SYSTEM_ACTOR)
    second = drafts.draft_due(now=now, actor=SYSTEM_ACTOR)

    assert (len(first.payouts), second.run, Payout.objects.count()) == (1, None, 1)


def test_stripes_fee_is_borne_by_the_provider_where_the_pool_says_so(shop, provider, now, settings):
    settings.PAYOUT_FEE_BEARER = "provider"
    shop.fund(10_000)

    approved = shop.approved(provider, now=now)
    assert (approved.amount_minor, approved.fee_minor, balances(provider)[0]) == (2519, 31, 0)
    sent = sending.send(payout_id=approved.pk, now=now)

    assert (sent.state, differences(now=now)) == ("transferred", [])
    assert balance_of("stripe_fees") == -310_000_000


def test_a_canceled_payout_gives_the_fee_back(shop, provider, now, settings):
    settings.PAYOUT_FEE_BEARER = "provider"
    approved = shop.approved(provider, now=now)

    approvals.cancel(payout_public_id=approved.public_id, reason="no", actor=SYSTEM_ACTOR, now=now)

    assert (balances(provider), balance_of("stripe_fees"), differences(now=now)) == ((PAID, 0), 0, [])
