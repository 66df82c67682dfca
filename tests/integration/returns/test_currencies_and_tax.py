"""Refunds and disputes in currencies without and with three decimals, and with the tax that was paid on top."""

from collections.abc import Iterator

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import TopUp
from portal.billing.selectors import refunds as selectors
from portal.billing.services import disputes, reconcile, refund_moves, refund_sending, refunds
from tests.factories.billing import paid_in
from tests.factories.payouts import Shop, balance_of, open_shop
from tests.integration.returns.till import books_differ_by, paid, refunds_at, spend, standing

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["jpy", "kwd"])
def foreign(request, settings) -> Iterator[Shop]:
    """A shop that sells in another currency."""
    settings.TOPUP_FIRST_CAP_MINOR = 0
    with open_shop(currency=request.param) as opened:
        yield opened


def test_amounts_are_in_the_currencys_own_coins(foreign, now):
    topup = paid(foreign, amount=6000, now=now)
    spend(topup, minor=1500, now=now)
    assert selectors.refundable(topup=topup) == 4500

    refund = refunds.give(topup=topup, amount_minor=2500, note="", actor=SYSTEM_ACTOR, now=now)
    refund_sending.send(refund_id=refund.pk, now=now)
    disputes.read(dispute=foreign.double.control("dispute", charge=topup.charge)["id"], now=now)

    assert [one["amount"] for one in refunds_at(foreign, topup)] == [2500]
    assert (standing(topup), books_differ_by(topup)) == ((0, 1500, 0), 0)
    assert reconcile.differences(now=now) == []


@pytest.fixture
def taxed(shop, now) -> TopUp:
    """A purchase of 100.00 with 19.00 of tax on top, all of it at Stripe."""
    topup = paid(shop, amount=10_000, now=now)
    charge = shop.double.store.get("charge", topup.charge)
    shop.double.store.put("charge", charge | {"amount": 11_900})
    topup.tax_minor = 1900
    topup.save()
    shop.fund(1900)
    refund_moves.ledger.post(
        kind="topup",
        key="tax",
        source_type="topup",
        source_id=topup.public_id,
        transfers=paid_in(organization=topup.organization.public_id, net=0, tax=19 * 10**9),
        actor=SYSTEM_ACTOR,
        now=now,
    )
    return topup


def test_tax_goes_back_with_the_money(shop, taxed, now):
    spend(taxed, minor=5000, now=now)
    assert selectors.refundable(topup=taxed) == 5950

    refund = refunds.give(topup=taxed, amount_minor=5950, note="", actor=SYSTEM_ACTOR, now=now)
    refund_sending.send(refund_id=refund.pk, now=now)

    assert (refund.tax_minor, standing(taxed)) == (950, (0, 0, 0))
    assert balance_of("tax_payable") == 950 * 10**7


def test_a_dispute_takes_the_tax_back_and_a_won_one_returns_it(shop, taxed, now):
    made = shop.double.control("dispute", charge=taxed.charge)
    disputes.read(dispute=made["id"], now=now)
    assert (standing(taxed), balance_of("tax_payable")) == ((0, 0, 0), 0)

    shop.double.control("dispute/end", dispute=made["id"], is_won=True)
    disputes.read(dispute=made["id"], now=now)

    assert (standing(taxed), balance_of("tax_payable")) == ((10_000, 0, 0), 19 * 10**9)
