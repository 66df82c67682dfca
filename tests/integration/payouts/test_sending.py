"""Sending an approved payout: what Stripe answers decides, and the ledger follows."""

from datetime import timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger
from portal.payouts.errors import PayoutNotSendable
from portal.payouts.models import Payout, PayoutAttempt
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import approvals, drafts, runs, sending
from portal.providers.models import Provider, ProviderKind
from tests.factories.payouts import Shop, balance_of, earn, open_shop

pytestmark = pytest.mark.django_db


def balances_of(provider: Provider) -> tuple[int, int]:
    """Return available and clearing in cents."""
    kinds = ("provider_available", "payout_clearing")
    available, clearing = (balance_of(kind, provider.public_id) // 10_000_000 for kind in kinds)
    return available, clearing


def test_a_sent_payout_is_at_stripe_and_in_the_ledger(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    stripe_before = balance_of("stripe_balance")

    sent = sending.send(payout_id=payout.pk, now=now)

    transfer = shop.transfers(sent)[0]
    assert (sent.state, sent.stripe_transfer, sent.sent_at) == ("transferred", transfer["id"], now)
    assert (transfer["amount"], transfer["destination"]) == (2550, provider.payout_account.stripe_account)
    assert balances_of(provider) == (0, 0)
    assert stripe_before - balance_of("stripe_balance") == 25_500_000_000
    assert differences(now=now) == []


def test_it_is_sent_once(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    sending.send(payout_id=payout.pk, now=now)

    with pytest.raises(PayoutNotSendable):
        sending.send(payout_id=payout.pk, now=now)

    assert len(shop.transfers(payout)) == 1


def test_what_is_not_approved_is_not_sent(shop, now):
    shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts[0]

    with pytest.raises(PayoutNotSendable):
        sending.send(payout_id=payout.pk, now=now)

    payout.refresh_from_db()
    assert (payout.state, shop.transfers(payout)) == ("reserved", [])


def test_any_change_after_the_approval_voids_it(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    attempt = payout.attempts.get()
    PayoutAttempt.objects.filter(pk=attempt.pk).update(params={**attempt.params, "destination": "acct_other"})

    with pytest.raises(PayoutNotSendable):
        sending.send(payout_id=payout.pk, now=now)

    payout.refresh_from_db()
    assert (payout.state, payout.state_reason) == ("reserved", "it changed after it was approved")
    assert shop.transfers(payout) == []


def test_without_funds_it_waits_and_gets_a_new_key(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    payout = shop.approved(provider, now=now)

    waiting = sending.send(payout_id=payout.pk, now=now)

    first, second = payout.attempts.order_by("number")
    assert (waiting.state, first.result, first.error_code) == ("waiting_funds", "insufficient", "balance_insufficient")
    assert (first.idempotency_key[-2:], second.idempotency_key[-2:]) == (":1", ":2")
    assert balances_of(provider) == (0, 2550)

    assert runs.run(now=now).waiting == [payout.public_id]
    shop.fund(2550)
    assert runs.run(now=now).sent == {payout.public_id: "transferred"}
    assert len(shop.transfers(payout)) == 1
    assert differences(now=now) == []


def test_a_rate_limit_keeps_the_key(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("fail", path="/v1/transfers", kind="429")

    later = sending.send(payout_id=payout.pk, now=now)

    assert (later.state, payout.attempts.count()) == ("approved", 1)
    assert sending.send(payout_id=payout.pk, now=now).state == "transferred"
    assert payout.attempts.get().idempotency_key == f"payout:{payout.public_id}:1"


@pytest.mark.parametrize(("move", "code"), [("restrict", "account_restricted"), ("close", "account_closed")])
def test_an_account_that_cannot_be_paid_any_more_releases_the_money(shop, now, move, code):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("account", account=payout.destination, move=move)

    refused = sending.send(payout_id=payout.pk, now=now)

    assert (refused.state, refused.state_reason.split(":")[0]) == ("rejected", code)
    assert (balances_of(provider), shop.transfers(payout)) == ((2550, 0), [])
    assert differences(now=now) == []


def test_a_restriction_between_our_look_and_the_call_is_stripes_to_refuse(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    attempt = sending._claim(payout.pk, now)
    shop.double.control("account", account=payout.destination, move="restrict")

    refused = sending.call(attempt, now=now)

    assert (refused.state, refused.attempts.get().error_code) == ("rejected", "insufficient_capabilities_for_transfer")
    assert balances_of(provider) == (2550, 0)


def test_a_restriction_after_the_transfer_books_nothing(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)
    shop.double.control("account", account=payout.destination, move="restrict")

    provider.payout_account.refresh_from_db()

    assert (payout.state, balances_of(provider)) == ("transferred", (0, 0))
    assert differences(now=now) == []


def test_an_account_that_was_swapped_is_not_paid(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    other = shop.provider(earned_minor=0, now=now).payout_account
    account, another = provider.payout_account, other.stripe_account
    other.delete()
    account.stripe_account = another
    account.save()

    refused = sending.send(payout_id=payout.pk, now=now)

    assert (refused.state, refused.state_reason.split(":")[0]) == ("rejected", "destination_changed")
    assert balances_of(provider) == (2550, 0)


def test_an_account_in_debt_at_stripe_is_not_fed(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.store.rows("INSERT INTO lines VALUES ('txn_debt', ?, 'usd', -500, 0)", payout.destination)

    refused = sending.send(payout_id=payout.pk, now=now)

    assert (refused.state, refused.state_reason.split(":")[0]) == ("rejected", "negative_at_stripe")
    assert shop.transfers(payout) == []


def test_house_nodes_are_never_paid(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    Provider.objects.filter(pk=provider.pk).update(kind=ProviderKind.HOUSE)

    refused = sending.send(payout_id=payout.pk, now=now)

    assert (refused.state, shop.transfers(payout)) == ("rejected", [])


def test_an_unreachable_stripe_before_the_call_leaves_it_approved(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("fail", method="GET", path="/v2/core/accounts", kind="reset", count=3)

    later = sending.send(payout_id=payout.pk, now=now)

    assert (later.state, payout.attempts.get().first_sent_at) == ("approved", None)
    assert sending.send(payout_id=payout.pk, now=now).state == "transferred"


def test_released_money_is_paid_by_the_next_run(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("account", account=payout.destination, move="restrict")
    sending.send(payout_id=payout.pk, now=now)
    shop.double.control("account", account=payout.destination, move="complete")
    later = now + timedelta(days=1)

    again = sending.send(payout_id=shop.approved(provider, now=later).pk, now=later)

    assert (again.state, again.amount_minor) == ("transferred", 2550)
    assert [one.state for one in Payout.objects.order_by("pk")] == ["rejected", "transferred"]
    assert differences(now=later) == []


def test_two_operators_must_say_yes_where_two_are_needed(shop, now, settings):
    settings.PAYOUT_APPROVERS = 2
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)

    payout = shop.approved(provider, now=now)

    assert payout.state == "reserved"
    first = payout.approvals.get().approved_by
    same = approvals.approve(payout_public_id=payout.public_id, approver=first, actor=SYSTEM_ACTOR, now=now)
    assert same.state == "reserved"


@pytest.mark.parametrize(("currency", "nano_per_minor"), [("jpy", 10**9), ("kwd", 10**6)])
def test_amounts_in_yen_and_dinars_keep_their_units(now, currency, nano_per_minor):
    with open_shop(currency=currency) as shop:
        provider = shop.provider(earned_minor=2550, now=now)
        assert balance_of("provider_available", provider.public_id, currency=currency) == 2550 * nano_per_minor
        shop.fund(10_000)

        payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)

        assert (payout.state, payout.amount_minor, payout.currency) == ("transferred", 2550, currency)
        assert (shop.transfers(payout)[0]["amount"], shop.transfers(payout)[0]["currency"]) == (2550, currency)
        assert balance_of("provider_available", provider.public_id, currency=currency) == 0
        assert differences(now=now) == []


def test_dust_below_a_cent_stays_payable(shop: Shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    available = ledger.account(Kind.PROVIDER_AVAILABLE, provider.public_id, currency="usd")
    credit = earn(provider, minor=1, now=now, key="more")
    ledger.post(
        kind="correction",
        key="take-a-part-back",
        source_type="test",
        source_id="1",
        transfers=[ledger.Transfer(available, credit, 3_000_001)],
        actor=SYSTEM_ACTOR,
        now=now,
    )
    shop.fund(10_000)

    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)

    assert payout.amount_minor == 2550
    assert balance_of("provider_available", provider.public_id) == 10_000_000 - 3_000_001
