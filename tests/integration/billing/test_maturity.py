"""Earnings become available after the provider's hold, each once and each provider alone."""

from datetime import timedelta

import pytest

from portal.billing.models import CustomerRisk, EarningMaturity
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger, maturity, posting, reconcile
from tests.factories.billing import DELIVERED, Market

pytestmark = pytest.mark.django_db
LATER = DELIVERED + timedelta(minutes=1)
SHARE = 480_000  # of 1,000 prompt and 500 completion tokens at the market's price


def provider(market):
    return balances.provider_balance(provider=market.provider.public_id)


def test_an_earning_matures_after_the_providers_hold(settings):
    settings.PAYOUT_HOLD_DAYS = 7
    market = Market()
    market.serve()
    posting.post_usage(now=LATER)

    assert maturity.mature(now=DELIVERED + timedelta(days=7, microseconds=-1)) == 0
    assert maturity.mature(now=DELIVERED + timedelta(days=7)) == 1
    assert maturity.mature(now=DELIVERED + timedelta(days=8)) == 0

    assert (provider(market).pending_nano, provider(market).available_nano) == (0, SHARE)
    assert reconcile.differences(now=LATER) == []


@pytest.mark.parametrize(("tier", "days"), [("new", 60), ("known", 14), ("trusted", 7)])
def test_young_payments_make_later_money(settings, tier, days):
    settings.PAYOUT_HOLD_DAYS = 7
    market = Market()
    CustomerRisk.objects.create(organization=market.customer, tier=tier, judged_at=DELIVERED)
    market.serve()

    posting.post_usage(now=LATER)

    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=days)


def test_without_a_hold_an_earning_matures_at_once(settings):
    settings.PAYOUT_HOLD_DAYS = 0
    market = Market()
    market.serve()
    posting.post_usage(now=LATER)

    assert maturity.mature(now=LATER) == 1
    assert provider(market).available_nano == SHARE


def test_a_provider_whose_balance_is_short_keeps_nobody_waiting(settings, caplog):
    settings.PAYOUT_HOLD_DAYS = 0
    short, sound = sorted((Market(), Market()), key=lambda market: market.provider.public_id)
    short.serve()
    posting.post_usage(now=LATER)
    short.serve()
    sound.serve()
    posting.post_usage(now=LATER)
    pending = ledger.account(Kind.PROVIDER_PENDING, short.provider.public_id, currency="usd")
    ledger.post(
        kind="clawback",
        key="clawback:1",
        source_type="clawback",
        source_id="1",
        transfers=[
            ledger.Transfer(pending, ledger.account(Kind.PLATFORM_REVENUE, currency="usd"), 2 * SHARE),
        ],
        actor=posting.SYSTEM_ACTOR,
        now=LATER,
    )

    assert maturity.mature(now=LATER, limit=1) == 1

    assert provider(sound).available_nano == SHARE
    assert (provider(short).available_nano, provider(short).pending_nano) == (0, 0)
    assert "billing.maturity_blocked" in caplog.messages
    assert {found.code for found in reconcile.differences(now=LATER)} == {"pending_differs_from_maturities"}
