"""Months close once, their statements never change, and what comes late belongs to the open month."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import PeriodNotOver
from portal.billing.models import ClosedPeriod, LedgerTx, Statement
from portal.billing.rules import statements as rules
from portal.billing.rules.accounts import Kind
from portal.billing.rules.periods import month_of
from portal.billing.selectors import statements as selectors
from portal.billing.selectors.statements import Party
from portal.billing.services import closing, ledger, posting, recompute, reconcile, statements
from portal.core.errors import NotFound
from tests.factories.billing import DELIVERED, Market

pytestmark = pytest.mark.django_db
NOVEMBER = month_of(DELIVERED)
AFTER = datetime(2026, 12, 2, tzinfo=UTC)
CHARGE, SHARE = 600_000, 480_000


@pytest.fixture
def market():
    made = Market()
    for _ in range(2):
        made.serve()
    posting.post_usage(now=DELIVERED)
    return made


def customer(market):
    return Party("customer", market.customer.public_id)


def provider(market):
    return Party("provider", market.provider.public_id)


def test_a_customers_month_adds_up(market):
    content = selectors.content(party=customer(market), period=NOVEMBER, currency="usd")

    (line,) = content.usage
    assert (line.model, line.node, line.requests, line.prompt_tokens) == (market.model.public_id, "", 2, 2000)
    assert line.amount_nano == 2 * CHARGE
    assert (content.opening_nano, content.closing_nano) == (10_000_000_000, 10_000_000_000 - 2 * CHARGE)
    assert content.gap_nano == 0


def test_purchases_are_entries_of_their_month(market):
    october = month_of(datetime(2026, 10, 1, tzinfo=UTC))

    content = selectors.content(party=customer(market), period=october, currency="usd")

    assert [(line.kind, line.amount_nano) for line in content.entries] == [("topup", 10_000_000_000)]
    assert (content.opening_nano, content.closing_nano, content.gap_nano) == (0, 10_000_000_000, 0)


def test_a_providers_month_names_its_nodes(market):
    content = selectors.content(party=provider(market), period=NOVEMBER, currency="usd")

    (line,) = content.usage
    assert (line.node, line.amount_nano) == (market.node.public_id, 2 * SHARE)
    assert (content.opening_nano, content.closing_nano, content.gap_nano) == (0, 2 * SHARE, 0)


def test_a_payout_reserved_is_still_owed_and_a_sent_one_is_not(market, settings):
    from portal.billing.services import maturity, templates

    settings.PAYOUT_HOLD_DAYS = 0
    maturity.mature(now=DELIVERED + timedelta(days=20))
    name = market.provider.public_id
    for number, template in enumerate([templates.payout_reserved, templates.payout_sent]):
        ledger.post(
            kind=f"payout_{number}",
            key=f"payout:{number}",
            source_type="payout",
            source_id="1",
            transfers=template(provider=name, amount=100, currency="usd"),
            actor=SYSTEM_ACTOR,
            now=DELIVERED,
        )

    content = selectors.content(party=provider(market), period=NOVEMBER, currency="usd")

    assert [(line.kind, line.amount_nano) for line in content.entries] == [("payout_1", -100)]
    assert (content.closing_nano, content.gap_nano) == (2 * SHARE - 100, 0)


def test_a_month_is_not_closed_before_usage_had_a_day_to_arrive(market):
    with pytest.raises(PeriodNotOver):
        closing.close_period(period=NOVEMBER, now=NOVEMBER.ends_at + timedelta(hours=23, minutes=59))
    with pytest.raises(PeriodNotOver):
        statements.freeze(party=customer(market), period=NOVEMBER, now=AFTER)

    assert not ClosedPeriod.objects.exists()
    assert not Statement.objects.exists()


def test_a_month_is_closed_once_and_freezes_everybodys_statement(market):
    assert statements.freeze_month(now=AFTER) == 2
    assert statements.freeze_month(now=AFTER + timedelta(hours=1)) == 0

    assert ClosedPeriod.objects.get().closed_at == AFTER
    assert sorted(Statement.objects.values_list("number", flat=True)) == ["C-2026-11-0001", "P-2026-11-0001"]
    stored = Statement.objects.get(kind="customer")
    assert stored.sha256 == rules.digest(stored.content)
    assert rules.from_json(stored.content).gap_nano == 0
    assert statements.freeze(party=customer(market), period=NOVEMBER, now=AFTER).pk == stored.pk
    assert reconcile.differences(now=DELIVERED) == []


def test_too_early_nothing_is_frozen(market):
    assert statements.freeze_month(now=NOVEMBER.ends_at + timedelta(hours=1)) == 0

    assert not ClosedPeriod.objects.exists()


def test_statements_of_a_month_are_numbered(market):
    other = Market(model=market.model)
    other.serve()
    posting.post_usage(now=DELIVERED)

    statements.freeze_month(now=AFTER)

    numbers = Statement.objects.filter(kind="customer").order_by("number").values_list("number", flat=True)
    assert list(numbers) == ["C-2026-11-0001", "C-2026-11-0002"]


def test_late_usage_goes_to_the_open_month(market):
    statements.freeze_month(now=AFTER)
    market.serve(closed_at=NOVEMBER.ends_at - timedelta(seconds=1))

    posting.post_usage(now=AFTER)

    late = LedgerTx.objects.filter(kind="usage").order_by("-created_at").first()
    assert late.effective_at == AFTER
    december = selectors.content(party=customer(market), period=month_of(AFTER), currency="usd")
    assert (december.usage_nano, december.gap_nano) == (CHARGE, 0)
    assert recompute.statement(number="C-2026-11-0001").is_right
    assert reconcile.differences(now=DELIVERED) == []


def test_late_usage_of_a_month_that_is_not_closed_belongs_to_it(market):
    market.serve(closed_at=NOVEMBER.ends_at - timedelta(microseconds=1))

    posting.post_usage(now=NOVEMBER.ends_at + timedelta(hours=5))

    content = selectors.content(party=customer(market), period=NOVEMBER, currency="usd")
    assert content.usage[0].requests == 3


def test_the_database_itself_keeps_a_closed_month_closed(market):
    closing.close_period(period=NOVEMBER, now=AFTER)

    with pytest.raises(IntegrityError, match="is closed"), transaction.atomic():
        LedgerTx.objects.create(
            kind="test", idempotency_key="x", effective_at=NOVEMBER.ends_at - timedelta(seconds=1), created_at=AFTER
        )


def test_other_events_of_a_closed_month_take_effect_now(market):
    closing.close_period(period=NOVEMBER, now=AFTER)

    tx = ledger.post(
        kind="topup",
        key="topup:late",
        source_type="topup",
        source_id="late",
        transfers=[
            ledger.Transfer(
                ledger.account(Kind.STRIPE_BALANCE, currency="usd"),
                ledger.account(Kind.CUSTOMER_CREDIT, market.customer.public_id, currency="usd"),
                5,
            )
        ],
        actor=SYSTEM_ACTOR,
        now=AFTER,
        effective_at=DELIVERED,
    )

    assert tx.effective_at == AFTER


def test_a_frozen_statement_cannot_be_edited(market):
    statements.freeze_month(now=AFTER)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Statement.objects.update(sha256="0")

    assert recompute.statement(number="P-2026-11-0001").is_right


def test_a_statement_that_was_never_made_cannot_be_recomputed():
    with pytest.raises(NotFound):
        recompute.statement(number="C-2026-11-0001")
