"""Reports of others about sums, currencies and periods, and what happens here instead."""

from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import (
    BooksDay,
    ClosedPeriod,
    LedgerTransfer,
    LedgerTx,
    Statement,
    StripeMovement,
    UsagePosting,
)
from portal.billing.rules import periods
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import account_movements, balances
from portal.billing.selectors import statements as selectors
from portal.billing.selectors.statements import Party
from portal.billing.services import books, ledger, posting, statements, topups
from portal.integrations import stripe
from portal.integrations.stripe_types import RefundOrder
from portal.metering.models import UsageRecord
from portal.payouts.services import sending, stripe_books
from tests.factories.billing import DELIVERED, Market
from tests.factories.payouts import balance_of, open_shop

pytestmark = pytest.mark.django_db
NOVEMBER = periods.month_of(DELIVERED)
AFTER = NOVEMBER.ends_at + periods.CLOSING_DELAY


def test_cents_of_two_currencies_are_never_summed(shop, now):
    """antiwork/gumroad#4955."""
    shop.fund(1000)
    shop.double.control("fund", amount=900, currency="eur")
    dollars = ledger.account(Kind.CUSTOMER_CREDIT, "org_a", currency="usd")
    euros = ledger.account(Kind.CUSTOMER_CREDIT, "org_b", currency="eur")

    stripe_books.sync(now=now)

    assert set(StripeMovement.objects.values_list("currency", "net_minor")) == {("usd", 1000)}
    assert balance_of(Kind.STRIPE_BALANCE) == 1000 * 10_000_000
    tx = LedgerTx.objects.get()
    with pytest.raises(IntegrityError, match="ledger_credit_currency"), transaction.atomic():
        LedgerTransfer.objects.create(
            tx=tx, seq=9, effective_at=now, debit_account=dollars, credit_account=euros, amount=1, currency="usd"
        )


def test_yen_are_neither_multiplied_nor_divided_by_a_hundred(now):
    """Paymenter/Paymenter#1258, woocommerce-gateway-stripe#435."""
    with open_shop(currency="jpy") as shop:
        topup = shop.buy(amount=1234, now=now)
        topup = topups.fulfil(topup_id=topup.pk, now=now)
        refund = stripe.payments().create_refund(
            key="refund:test",
            order=RefundOrder(
                refund="refund_1", organization="org", charge=topup.charge, amount_minor=234, currency="jpy"
            ),
        )
        provider = shop.provider(earned_minor=777, now=now)
        shop.fund(5000)
        payout = sending.send(payout_id=shop.approved(provider, now=now).pk, now=now)

        charge = next(one for one in shop.double.store.all("charge") if one["id"] == topup.charge)
        credit = balance_of(Kind.CUSTOMER_CREDIT, topup.organization.public_id, currency="jpy")
        assert (charge["amount"], charge["amount_refunded"], refund.amount_minor) == (1234, 234, 234)
        assert (credit, payout.amount_minor, shop.transfers(payout)[0]["amount"]) == (1234 * 10**9, 777, 777)


AMOUNTS = st.lists(st.tuples(st.booleans(), st.integers(1, 10**12)), min_size=1, max_size=12)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(moves=AMOUNTS)
def test_a_balance_is_the_sum_of_its_movements_to_the_nano(moves, now):
    """getlago/lago-api#4639, #4641, #5525."""
    with transaction.atomic():
        bank = ledger.account(Kind.STRIPE_BALANCE, currency="usd")
        credit = ledger.account(Kind.CUSTOMER_CREDIT, "org_sums", currency="usd")
        expected = 0
        for step, (is_in, amount) in enumerate(moves):
            sides = (bank, credit) if is_in or expected < amount else (credit, bank)
            expected += amount if sides[1] == credit else -amount
            ledger.post(
                kind="test",
                key=f"sums:{step}",
                source_type="test",
                source_id=str(step),
                transfers=[ledger.Transfer(*sides, amount)],
                actor=SYSTEM_ACTOR,
                now=now,
            )
        credit.refresh_from_db()

        shown = account_movements.newest(account=credit, asked=account_movements.Asked())
        assert (balances.balance_of(credit), shown[0].balance_nano) == (expected, expected)
        assert sum(row.amount_nano for row in shown) == expected
        transaction.set_rollback(True)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/New_York", "UTC"])
def test_the_time_zone_does_not_decide_which_month_usage_belongs_to(zone):
    """killbill/killbill#1981, #1856; getlago/lago-api#879: month's end, and nights of clock changes."""
    market = Market()
    edge = datetime(2026, 11, 1, tzinfo=UTC)
    changes = [datetime(2026, 10, 25, 1, 30, tzinfo=UTC), datetime(2026, 11, 1, 6, 30, tzinfo=UTC)]
    with timezone.override(ZoneInfo(zone)):
        for at in (edge - timedelta(seconds=1), edge, edge + timedelta(seconds=1), *changes):
            market.serve(closed_at=at)
            posting.post_usage(now=at)
        party = Party("customer", market.customer.public_id)
        counts = {}
        for month in (periods.month_of(edge - timedelta(seconds=1)), periods.month_of(edge)):
            content = selectors.content(party=party, period=month, currency="usd")
            counts[str(month)] = sum(line.requests for line in content.usage)
            assert content.gap_nano == 0

    assert counts == {"2026-10": 2, "2026-11": 3}


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_fires_twice_makes_everything_once():
    """getlago/lago-api#2681, #4795; frappe/central#170; django-getpaid/django-plans#244."""
    market = Market()
    market.serve()
    posting.post_usage(now=DELIVERED)
    barrier, failures = Barrier(3), []

    def fire():
        try:
            barrier.wait()
            statements.freeze_month(now=AFTER)
            books.freeze_days(now=AFTER)
        except Exception as error:  # noqa: BLE001  whatever it is, the test must see it
            failures.append(error)
        finally:
            connection.close()

    threads = [Thread(target=fire) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert ClosedPeriod.objects.count() == 1
    assert sorted(Statement.objects.values_list("number", flat=True)) == ["C-2026-11-0001", "P-2026-11-0001"]
    days = list(BooksDay.objects.order_by("day").values_list("day", flat=True))
    assert len(days) == len(set(days)) == 61  # from the first purchase, 1 October, to 30 November


def test_every_charge_leads_to_its_usage_records(world):
    """openai/codex#46608."""
    market = Market()
    records = [market.serve(), market.serve(charge_nano=7)]
    posting.post_usage(now=DELIVERED)
    browser = world.client(world.operator)

    for tx in LedgerTx.objects.filter(kind="usage"):
        named = list(UsagePosting.objects.filter(tx=tx))
        moved = sum(LedgerTransfer.objects.filter(tx=tx).values_list("amount", flat=True))
        page = browser.get(f"/operator/ledger/journal/{tx.pk}/").content.decode()
        assert sum(row.charge_nano for row in named) == moved
        for row in named:
            record = UsageRecord.objects.get(request_id=row.request_id, attempt=row.attempt)
            assert record.charge_nano == row.charge_nano
            assert str(row.request_id) in page
    assert UsagePosting.objects.count() == len(records)
