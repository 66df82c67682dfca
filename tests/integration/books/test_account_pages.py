"""One account's page: running balance, pages by key, filters, the file, and where each source leads."""

from datetime import timedelta

import pytest

from portal.billing.rules.accounts import Kind
from portal.billing.selectors import account_movements, journal, ledger_accounts
from portal.billing.selectors.account_movements import Asked
from portal.billing.services import closing, posting
from portal.core.money import decimal_text
from tests.factories.billing import DELIVERED, OPENED, Market, buy
from tests.integration.books.test_closing import AFTER, OCTOBER

pytestmark = pytest.mark.django_db
LATER = DELIVERED + timedelta(minutes=1)


@pytest.fixture
def market():
    """A customer with three purchases, some in the same moment, and usage on two days."""
    made = Market()
    buy(made.customer, amount=3, key="2", now=OPENED)
    buy(made.customer, amount=5, key="3", now=OPENED + timedelta(days=1))
    for day in range(2):
        made.serve(closed_at=DELIVERED + timedelta(days=day))
        posting.post_usage(now=LATER + timedelta(days=day))
    return made


def credit(market):
    return ledger_accounts.account(f"customer_credit:{market.customer.public_id}")


def paged(account, asked, size):
    rows, before = [], None
    while page := account_movements.newest(account=account, asked=asked, before=before, limit=size):
        rows += page
        before = page[-1].place
    return rows


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_pages_join_without_a_gap_and_each_balance_is_right(market, size, is_closed):
    if is_closed:
        closing.close_period(period=OCTOBER, now=AFTER)
    account = credit(market)

    rows = paged(account, Asked(), size)

    balance = 0
    for row in reversed(rows):
        balance += row.amount_nano
        assert row.balance_nano == balance
    (shown,) = ledger_accounts.accounts(now=LATER, kind=account.kind, owner=account.owner)
    assert (balance, len({row.transfer_id for row in rows})) == (shown.balance_nano, len(rows))
    assert list(account_movements.oldest(account=account, asked=Asked())) == rows[::-1]


def test_a_debit_account_counts_the_other_way(market):
    rows = paged(ledger_accounts.account("stripe_balance"), Asked(), 2)

    assert [row.amount_nano for row in rows] == [5, 3, 10_000_000_000]
    assert [row.balance_nano for row in rows] == [10_000_000_008, 10_000_000_003, 10_000_000_000]


def test_days_kind_and_owner_are_filters(market):
    account, provider = credit(market), market.provider.public_id
    day = DELIVERED.date()

    by_day = paged(account, Asked(first=day, last=day), 50)
    by_owner = paged(account, Asked(owner=provider), 50)
    by_kind = paged(account, Asked(kind="topup"), 1)

    assert {row.at.date() for row in by_day} == {day}
    assert by_day[0].balance_nano == account_movements.newest(account=account, asked=Asked(last=day))[0].balance_nano
    assert {row.counter for row in by_owner} == {f"provider_pending:{provider}"}
    assert [row.amount_nano for row in by_kind] == [5, 3, 10_000_000_000]
    assert {row.balance_nano for row in by_owner + by_kind} == {None}


def test_the_file_has_full_precision(world, market):
    browser = world.client(world.operator)
    code = credit(market).code

    text = b"".join(browser.get(f"/operator/ledger/accounts/{code}.csv").streaming_content).decode()

    lines = [line.split(",") for line in text.splitlines()]
    rows = list(account_movements.oldest(account=credit(market), asked=Asked()))
    assert [line[7:9] for line in lines[1:]] == [
        [decimal_text(row.amount_nano), decimal_text(row.balance_nano)] for row in rows
    ]


def test_each_source_leads_to_its_page(world, market):
    browser = world.client(world.operator)

    for row in paged(credit(market), Asked(), 50):
        page = browser.get(f"/operator/ledger/journal/{row.tx_id}/")
        assert row.source_id in page.content.decode()
    page = browser.get(f"/operator/ledger/accounts/{credit(market).code}/").content.decode()
    assert "/operator/tables/billing/topup/?q=3" in page


def test_the_journal_is_paged_by_key(market):
    every = journal.newest(asked=journal.Asked(), limit=100)
    paged_, before = [], None
    while page := journal.newest(asked=journal.Asked(), before=before, limit=2):
        paged_ += page
        before = (page[-1].effective_at, page[-1].pk)

    assert [tx.pk for tx in paged_] == [tx.pk for tx in every]
    assert [tx.pk for tx in journal.oldest(asked=journal.Asked())] == [tx.pk for tx in every[::-1]]
    owned = journal.newest(asked=journal.Asked(owner=market.provider.public_id))
    assert {tx.kind for tx in owned} == {"usage"}
    assert journal.kinds() == sorted({tx.kind for tx in every})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("accounts/nonsense/", 404),
        ("accounts/stripe_balance/?before=nonsense", 404),
        ("accounts/stripe_balance/?first=nonsense", 400),
        ("accounts/stripe_balance/?last=9999-12-31", 400),
        ("accounts/stripe_balance/?before=2026-11-01_99999999999999999999", 404),
        ("accounts/stripe_balance/?before=0001-01-01T00:00%2B23:00_1", 404),
        ("journal/?before=2026-11-01_x", 404),
        ("journal/?owner=%00", 200),
        ("journal/?last=31.11.2026", 400),
        ("trial-balance/?at=now", 400),
        ("trial-balance/?at=0001-01-01T00:00%2B23:00", 400),
    ],
)
def test_a_bad_address_is_refused(world, market, path, status):
    assert world.client(world.operator).get(f"/operator/ledger/{path}").status_code == status


def test_balances_by_kind_are_equal_on_both_sides(market):
    rows = ledger_accounts.by_kind(now=LATER)

    assert sum(row.debit_nano for row in rows) == sum(row.credit_nano for row in rows) == 10_000_000_008
    assert {row.kind for row in rows} >= {Kind.STRIPE_BALANCE, Kind.CUSTOMER_CREDIT, Kind.PROVIDER_PENDING}
