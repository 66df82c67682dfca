"""The happy path in currencies without decimals and with three: bought, used, paid out, and right on every page."""

import pytest
from django.core.management import call_command

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger, topups
from portal.billing.services.topups import TopUpMismatch
from portal.core import money
from portal.core.errors import InvalidValue
from portal.payouts.rules.amounts import payable_minor
from portal.payouts.services import ledger_checks, sending
from portal.web import formats
from tests.factories.accounts import MembershipFactory
from tests.factories.payouts import Shop, balance_of, open_shop

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["jpy", "kwd"])
def shop(request):
    """A stand-in and a pool in this currency."""
    with open_shop(currency=request.param) as opened:
        yield opened


def use(shop: Shop, organization, provider, minor: int, now) -> None:
    """Charge the customer, all of it for the provider, and let it mature."""
    accounts = [
        ledger.account(Kind.CUSTOMER_CREDIT, organization.public_id, currency=shop.currency),
        ledger.account(Kind.PROVIDER_AVAILABLE, provider.public_id, currency=shop.currency),
    ]
    amount = money.nano_from_minor(minor, shop.currency) + 1  # a nano of dust, that no bank can move
    ledger.post(
        kind="maturity",
        key=f"use:{provider.public_id}",
        source_type="test",
        source_id="1",
        transfers=[ledger.Transfer(*accounts, amount)],
        actor=SYSTEM_ACTOR,
        now=now,
    )


def test_bought_used_and_paid_out_to_the_smallest_unit(shop, now):
    topup = shop.buy(amount=9990, now=now)
    topups.fulfil(topup_id=topup.pk, now=now)
    organization = topup.organization
    assert balance_of(Kind.CUSTOMER_CREDIT, organization.public_id, currency=shop.currency) == money.nano_from_minor(
        9990, shop.currency
    )
    provider = shop.provider(earned_minor=0, now=now)
    use(shop, organization, provider, 4320, now)
    shop.fund(50_000)

    payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)

    assert (payout.state, payout.amount_minor, payout.currency) == ("transferred", 4320, shop.currency)
    assert [one["amount"] for one in shop.transfers(payout)] == [4320]
    assert balance_of(Kind.PROVIDER_AVAILABLE, provider.public_id, currency=shop.currency) == 1
    assert {one.code for one in ledger_checks.check(now=now).differences} <= {"pending_differs_from_maturities"}


def test_pages_show_the_currencys_own_decimals(shop, now, client):
    topup = shop.buy(amount=9990, now=now)
    topups.fulfil(topup_id=topup.pk, now=now)
    owner = MembershipFactory(organization=topup.organization, role="owner").user
    client.force_login(owner)

    text = client.get("/customer/credit/").content.decode()

    assert {"jpy": "¥9,990", "kwd": "9.990 KWD"}[shop.currency] in text
    assert "¥9,990." not in text


def test_an_object_in_another_currency_is_refused(shop, now, settings):
    topup = shop.buy(amount=9990, now=now)
    settings.CURRENCY = "usd"
    type(topup).objects.filter(pk=topup.pk).update(currency="usd")

    with pytest.raises(TopUpMismatch):
        topups.fulfil(topup_id=topup.pk, now=now)

    topup.refresh_from_db()
    assert topup.state == "failed"
    assert "currency" in topup.state_reason
    assert balance_of(Kind.STRIPE_BALANCE) == 0


@pytest.mark.parametrize(
    ("currency", "nano", "minor"),
    [
        ("jpy", 12_999_999_999, 12),
        ("krw", 12_999_999_999, 12),
        ("kwd", 12_999_999_999, 12_990),
        ("isk", 12_990_000_000, 1200),
        ("huf", 12_990_000_000, 1200),
        ("twd", 12_990_000_000, 1200),
        ("ugx", 12_990_000_000, 1200),
        ("usd", 12_999_999_999, 1299),
    ],
)
def test_what_can_be_sent_of_a_balance(currency, nano, minor):
    assert payable_minor(nano, currency) == minor


@pytest.mark.parametrize(
    ("currency", "nano", "shown", "exact"),
    [
        ("jpy", 1_234_500_000_000, "¥1,235", "¥1,234.5"),
        ("jpy", 5_000_000_000, "¥5", "¥5"),
        ("kwd", 1_234_500_000, "1.235 KWD", "1.2345 KWD"),
        ("usd", 1_230_000_000, "$1.23", "$1.23"),
        ("krw", 7_000_000_000, "7 KRW", "7 KRW"),
    ],
)
def test_amounts_are_written_with_the_currencys_decimals(currency, nano, shown, exact):
    assert formats.money(nano, currency=currency) == shown
    assert formats.exact_money(nano, currency=currency) == exact


@pytest.mark.parametrize(("currency", "amount"), [("kwd", 9995), ("isk", 100_050), ("ugx", 2_000_050)])
def test_a_purchase_keeps_to_the_currencys_steps(now, settings, currency, amount):
    settings.CURRENCY, settings.STRIPE_API_KEY = currency, "sk_test_x"
    shop = Shop(double=None, currency=currency)
    organization, user = shop.customer()

    with pytest.raises(InvalidValue, match="multiple"):
        shop.start(organization, user, amount=amount, now=now)


def test_a_trial_balance_is_in_the_pools_currency(shop, now, world, capsys):
    topup = shop.buy(amount=9990, now=now)
    topups.fulfil(topup_id=topup.pk, now=now)

    page = world.client(world.operator).get("/operator/ledger/trial-balance/").content.decode()
    answer = world.client(world.operator).get("/operator/ledger/trial-balance.csv")

    assert "Both sides are equal" in page
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert {line.split(",")[3] for line in lines[1:]} == {shop.currency}
    call_command("ledger_check")
    assert "no differences" in capsys.readouterr().out
