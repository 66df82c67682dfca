"""Each day: charged = providers' earnings + fee + refunds + write-offs, to the nano, whatever happened; then frozen."""

import random
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import IntegrityError, connection, transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import BooksDay, LedgerTx
from portal.billing.rules import books as rules
from portal.billing.rules import closing
from portal.billing.rules.accounts import KINDS, Kind
from portal.billing.rules.clawback import Split
from portal.billing.selectors import balances
from portal.billing.selectors import books as selector
from portal.billing.services import books, grants, ledger, maturity, posting, reconcile, templates
from tests.factories.billing import DELIVERED, Market, buy, house_market
from tests.integration.billing.test_differences import tamper

pytestmark = pytest.mark.django_db
START = DELIVERED.replace(hour=10)


def post(kind, transfers, now, key):
    return ledger.post(
        kind=kind, key=key, source_type="test", source_id=key, transfers=transfers, actor=SYSTEM_ACTOR, now=now
    )


class RandomWorld:
    """Two markets, one of the house; each step does one thing that moves money."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  a reproducible world, no secret
        self.markets = [Market(promo_nano=40_000_000, lease_nano=2_000_000_000), house_market()]
        self.now = START
        self.step = 0

    def run(self, steps: int) -> None:
        moves = [self.serve, self.serve, self.serve, self.late, self.mature, self.availability, self.clawback]
        moves += [self.write_off, self.reverse, self.buy, self.promo_expiry, self.fee]
        for _ in range(steps):
            self.step += 1
            self.now += timedelta(minutes=self.random.randint(1, 300))
            self.random.choice(moves)()

    def serve(self, at=None) -> None:
        market = self.random.choice(self.markets)
        market.serve(
            prompt=self.random.randint(1, 9999),
            completion=self.random.randint(1, 999),
            share_bps=self.random.choice([0, 7999, 8000, 10_000]),
            closed_at=at or self.now,
        )
        posting.post_usage(now=self.now)

    def late(self) -> None:
        self.serve(at=self.now - timedelta(days=2))

    def mature(self) -> None:
        maturity.mature(now=self.now + timedelta(days=400))

    def availability(self) -> None:
        provider = self.markets[0].provider.public_id
        pending = ledger.account(Kind.PROVIDER_PENDING, provider, currency="usd")
        paid = [ledger.Transfer(ledger.account(Kind.AVAILABILITY_EXPENSE, currency="usd"), pending, 1_234_567)]
        post("availability", paid, self.now, f"availability:{self.step}")

    def clawback(self) -> None:
        market = self.markets[0]
        pending = balances.provider_balance(provider=market.provider.public_id).pending_nano
        if pending:
            taken = self.random.randint(1, pending)
            customer = self.random.choice(["", market.customer.public_id])
            split = Split(held_nano=0, pending_nano=taken, reserve_nano=0, available_nano=0, debt_nano=7)
            parts = templates.provider_clawback(
                provider=market.provider.public_id, split=split, customer=customer, currency="usd"
            )
            post("provider_clawback", parts, self.now, f"clawback:{self.step}")

    def write_off(self) -> None:
        organization = self.markets[0].customer.public_id
        debt = templates.dispute_out(organization=organization, amount=9_999, free=0, currency="usd")
        post("dispute_out", debt, self.now, f"dispute:{self.step}")
        lost = templates.debt_written_off(organization=organization, amount=9_999, currency="usd")
        post("debt_written_off", lost, self.now, f"lost:{self.step}")

    def reverse(self) -> None:
        tx = LedgerTx.objects.filter(kind="availability", reversed_by=None).order_by("created_at").first()
        pending = balances.provider_balance(provider=self.markets[0].provider.public_id).pending_nano
        if tx is not None and pending >= 1_234_567:
            ledger.reverse(tx=tx, reason="the machine was off", actor=SYSTEM_ACTOR, now=self.now)

    def buy(self) -> None:
        customer = self.random.choice(self.markets).customer
        buy(customer, amount=self.random.randint(1, 10**9), now=self.now, key=f"more{self.step}")

    def promo_expiry(self) -> None:
        organization = self.markets[0].customer
        grants.grant_promo(
            organization=organization, amount_nano=555, key=f"w{self.step}", actor=SYSTEM_ACTOR, now=self.now
        )
        gone = templates.promo_expiry(organization=organization.public_id, amount=55, currency="usd")
        post("promo_expiry", gone, self.now, f"expiry:{self.step}")

    def fee(self) -> None:
        post("stripe_fee", templates.stripe_fee(amount=31, currency="usd"), self.now, f"fee:{self.step}")


@pytest.mark.parametrize("seed", range(4))
def test_every_day_of_a_random_world_adds_up(seed):
    world = RandomWorld(seed)
    world.run(60)
    last = (world.now + timedelta(days=1)).date()

    found = selector.days(first=date(2026, 10, 1), last=last)

    assert {day.difference_nano for day in found.values()} == {0}
    assert sum(day.charged_nano for day in found.values()) > 0
    assert sum(day.refunded_nano for day in found.values()) > 0
    assert sum(day.written_off_nano for day in found.values()) > 0
    assert {one.code for one in reconcile.differences(now=world.now) if one.code.startswith("books")} == set()


def test_the_parts_are_what_they_say():
    market = Market(promo_nano=1000)
    market.serve(charge_nano=1_000_001)
    posting.post_usage(now=START)
    tx = LedgerTx.objects.get(kind="usage")

    day = selector.days(first=START.date(), last=START.date())[START.date()]

    assert (day.requests, day.charged_nano, day.earned_nano, day.fee_nano) == (1, 1_000_001, 800_000, 200_001)
    ledger.reverse(tx=tx, reason="wrong answer", actor=SYSTEM_ACTOR, now=START)
    day = selector.days(first=START.date(), last=START.date())[START.date()]
    assert (day.charged_nano, day.refunded_nano, day.earned_nano, day.fee_nano) == (1_000_001, 1_000_001, 0, 0)


def test_a_charge_that_reached_nobody_shows_as_a_difference():
    market = Market()
    market.serve()
    posting.post_usage(now=START)
    tamper("UPDATE billing_usageposting SET charge_nano = charge_nano + 3")

    assert selector.days(first=START.date(), last=START.date())[START.date()].difference_nano == 3


def test_days_are_frozen_in_a_chain_without_gaps():
    market = Market()
    market.serve()
    posting.post_usage(now=START)
    noon = datetime(2026, 11, 4, 5, 59, tzinfo=UTC)

    assert books.freeze_days(now=noon) == 33  # from the day of the first purchase, 1 October, to 2 November
    assert books.freeze_days(now=noon + timedelta(minutes=1)) == 1
    assert books.freeze_days(now=noon + timedelta(minutes=1)) == 0

    rows = list(BooksDay.objects.order_by("day"))
    assert [row.day for row in rows] == [date(2026, 10, 1) + timedelta(days=n) for n in range(34)]
    for before, row in pairwise(rows):
        assert row.previous_sha256 == before.sha256
        assert row.sha256 == closing.day_digest(content=row.content, previous=before.sha256)
    assert rows[32].content["charged"] == "0.0006"
    assert reconcile.differences(now=noon) == []


def test_a_frozen_day_does_not_change_and_late_usage_is_booked_later():
    market = Market()
    market.serve()
    posting.post_usage(now=START)
    books.freeze_days(now=START + timedelta(days=2))
    before = list(BooksDay.objects.order_by("day").values_list("sha256", flat=True))
    market.serve(closed_at=START)
    posting.post_usage(now=START + timedelta(days=2))

    assert reconcile.differences(now=START) == []
    assert list(BooksDay.objects.order_by("day").values_list("sha256", flat=True)) == before
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE billing_booksday SET sha256 = 'x'")


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        (
            "UPDATE billing_booksday SET content = jsonb_set(content, '{charged}', '\"1\"') WHERE day = '2026-11-02'",
            {"books_day_changed", "books_day_differs"},
        ),
        ("DELETE FROM billing_booksday WHERE day = '2026-10-03'", {"books_day_changed"}),
    ],
)
def test_a_tampered_day_is_found(statement, codes):
    Market()
    books.freeze_days(now=START + timedelta(days=3))
    tamper(statement)

    assert {one.code for one in reconcile.differences(now=START)} == codes


def test_every_kind_of_account_belongs_to_a_group():
    assert set(rules.GROUPS) == set(KINDS)


def test_the_page_is_for_operators_until_it_is_published(world, settings, client):
    Market()
    books.freeze_days(now=START + timedelta(days=3))

    assert client.get("/books/").status_code == client.get("/books.json").status_code == 404
    assert world.client(world.operator).get("/books/").status_code == 200
    settings.PUBLISH_BOOKS = "on"
    assert "2026-11-02" in client.get("/books/").content.decode()
    days = client.get("/books.json?before=2026-10-03").json()["days"]
    assert [day["day"] for day in days] == ["2026-10-02", "2026-10-01"]
    assert days[0]["previous_sha256"] == days[1]["sha256"]
    assert client.get("/books/?before=x").status_code == 400
