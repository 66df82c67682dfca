"""The pages of usage, earnings, statements, prices and the ledger show what was booked."""

from datetime import UTC, datetime

import pytest
import time_machine

from portal.billing.models import PriceVersion, ShareVersion
from portal.billing.services import posting, statements
from tests.factories.billing import Market, PricedModelFactory, ServingNodeFactory
from tests.world import World

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 2, 15, 0, tzinfo=UTC)


@pytest.fixture
def market(world: World) -> Market:
    """A customer's three requests on a provider's node, posted."""
    served = Market(
        customer=world.customer.organization, node=ServingNodeFactory(provider=world.provider, name="=rack(1)")
    )
    for _ in range(3):
        served.serve()
    posting.post_usage(now=NOW)
    return served


@pytest.fixture(autouse=True)
def at_noon():
    """Pages read the clock; it stands still."""
    with time_machine.travel(NOW, tick=False):
        yield


def test_the_customer_sees_what_was_used_and_charged(world, market, django_assert_max_num_queries):
    browser = world.client(world.customer.reader)

    with django_assert_max_num_queries(30):
        page = browser.get("/customer/usage/").content.decode()

    assert "$0.0018" in page
    assert market.model.public_id in page
    assert "Request" in page


@pytest.mark.parametrize("query", ["?group=key", "?group=key&metric=tokens&days=7", "?group=x&metric=y&days=-1"])
def test_the_usage_view_is_in_the_address(world, market, query):
    page = world.client(world.customer.reader).get(f"/customer/usage/{query}")

    assert page.status_code == 200
    assert "$0.0018" in page.content.decode()


def test_usage_is_exported_with_full_precision(world, market):
    answer = world.client(world.customer.reader).get("/customer/usage.csv")

    assert answer["content-type"] == "text/csv; charset=utf-8"
    assert answer.content.decode().splitlines() == [
        "day_utc,model,key,price,requests,prompt_tokens,cached_tokens,completion_tokens,cost_usd",
        f"2026-11-02,{market.model.public_id},{market.key.name},v1,3,3000,0,1500,0.0018",
    ]


def test_a_stranger_sees_nothing_of_it(world, market):
    browser = world.client(world.stranger)

    assert "0.0018" not in browser.get("/customer/usage/").content.decode()
    assert browser.get("/customer/usage.csv").content.decode().count("\n") == 1
    assert "0.00144" not in browser.get("/provider/earnings/").content.decode()


def test_the_provider_sees_earnings_and_how_they_came_about(world, market, django_assert_max_num_queries):
    browser = world.client(world.supplier.reader)

    with django_assert_max_num_queries(30):
        page = browser.get("/provider/earnings/?group=node").content.decode()

    assert "$0.00144" in page
    assert "=rack(1)" in page
    assert "80% of it, rounded down" in page
    assert "0.00048" in page


def test_a_spreadsheet_runs_nothing_of_an_export(world, market):
    answer = world.client(world.supplier.reader).get("/provider/earnings.csv")

    assert answer.content.decode().splitlines()[1] == (
        f"2026-11-02,'=rack(1),{market.model.public_id},v1,8000,3,3000,0,1500,0.0018,0.00144"
    )


def test_an_open_month_has_a_live_statement(world, market):
    browser = world.client(world.customer.reader)

    page = browser.get("/customer/statement/?month=2026-11").content.decode()

    assert "The month is open" in page
    assert "Charged for usage" in page
    assert "does not add up" not in page
    assert "$0.0018" in page
    assert "2026-11" in browser.get("/customer/statements/").content.decode()


def test_a_closed_month_shows_its_number(world, market):
    december = datetime(2026, 12, 2, tzinfo=UTC)
    assert statements.freeze_month(now=december) >= 2
    with time_machine.travel(december, tick=False):
        listed = world.client(world.supplier.reader).get("/provider/statements/").content.decode()
        page = world.client(world.supplier.reader).get("/provider/statement/?month=2026-11").content.decode()
        csv = world.client(world.supplier.reader).get("/provider/statement.csv?month=2026-11").content.decode()

    assert "P-2026-11-0001" in listed
    assert "P-2026-11-0001" in page
    assert "Earned for usage" in page
    assert csv.splitlines()[1] == "opening,2026-11-01T00:00:00+00:00,,,,0"
    assert csv.splitlines()[-1] == "closing,2026-12-01T00:00:00+00:00,,,,0.00144"


@pytest.mark.parametrize("month", ["2026-13", "2027-01", "soon"])
def test_other_months_do_not_exist(world, market, month):
    assert world.client(world.customer.reader).get(f"/customer/statement/?month={month}").status_code == 404


def test_the_operator_sees_the_trial_balance_and_the_journal(world, market, django_assert_max_num_queries):
    browser = world.client(world.operator)

    with django_assert_max_num_queries(30):
        accounts = browser.get("/operator/ledger/").content.decode()
        journal = browser.get("/operator/ledger/journal/?kind=usage").content.decode()
    code = f"customer_credit:{world.customer.organization.public_id}"
    of_account = browser.get("/operator/ledger/journal/", {"account": code}).content.decode()

    assert code in accounts
    assert "3 requests" in journal
    assert "3 requests" in of_account
    assert browser.get("/operator/ledger/journal/?before=99999999").status_code == 404


def test_the_operator_follows_a_transaction_to_its_usage(world, market):
    from portal.billing.models import LedgerTx

    tx = LedgerTx.objects.get(kind="usage")

    page = world.client(world.operator).get(f"/operator/ledger/journal/{tx.pk}/").content.decode()
    csv = world.client(world.operator).get("/operator/ledger/journal.csv?kind=usage").getvalue().decode()

    assert tx.idempotency_key in page
    assert page.count("$0.0006") == 3
    assert len(csv.splitlines()) == 3


def test_a_price_is_previewed_before_it_is_set(world, market):
    browser = world.client(world.operator)
    url = f"/operator/prices/{market.model.pk}/"
    terms = {"prompt": "0.30", "cached": "0.05", "completion": "0.9", "request_fee": "0", "effective_from": ""}

    preview = browser.post(url, terms).content.decode()
    assert "$0.00075" in preview
    assert PriceVersion.objects.filter(model=market.model).count() == 1

    assert browser.post(url, terms | {"confirm": "1"}).status_code == 302
    version = PriceVersion.objects.get(model=market.model, version=2)
    assert (version.prompt_nano_per_mtok, version.effective_from) == (300_000_000, NOW)
    assert version.created_by == world.operator.public_id
    assert "in force" in browser.get(url).content.decode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": "abc"}, "Write an amount"),
        ({"prompt": "-1"}, "cannot be negative"),
        ({"cached": "0.31"}, "cached token may not cost more"),
        ({"effective_from": "2026-11-01T00:00"}, "has passed"),
    ],
)
def test_a_price_that_cannot_be_is_refused_in_words(world, market, changes, message):
    terms = {"prompt": "0.30", "cached": "0.05", "completion": "0.9", "request_fee": "0", "effective_from": ""}

    page = world.client(world.operator).post(f"/operator/prices/{market.model.pk}/", terms | changes | {"confirm": "1"})

    assert message in page.content.decode()
    assert PriceVersion.objects.filter(model=market.model).count() == 1


def test_a_share_is_set_from_a_later_moment_on(world, market, django_assert_max_num_queries):
    browser = world.client(world.operator)

    answer = browser.post(
        "/operator/shares/",
        {
            "what": "share",
            "share-provider": world.provider.pk,
            "share-percent": "72.5",
            "share-effective_from": "2026-11-03T00:00",
        },
    )

    assert answer.status_code == 302
    share = ShareVersion.objects.get()
    assert (share.provider, share.share_bps) == (world.provider, 7250)
    assert share.effective_from == datetime(2026, 11, 3, tzinfo=UTC)
    with django_assert_max_num_queries(30):
        assert "72.5%" in browser.get("/operator/shares/").content.decode()


def test_a_share_beyond_all_is_refused(world, market):
    page = world.client(world.operator).post("/operator/shares/", {"what": "share", "share-percent": "101"})

    assert page.status_code == 200
    assert not ShareVersion.objects.exists()


@pytest.mark.parametrize(
    "path",
    [
        "/customer/usage/",
        "/customer/statements/",
        "/operator/ledger/",
        "/operator/ledger/journal/",
        "/operator/prices/",
        "/operator/shares/",
        "/operator/availability/",
        "/operator/margin/",
        "/operator/prices/agreements/",
        "/customer/prices/",
    ],
)
def test_empty_pages_say_what_they_are_for(world, path):
    user = world.operator if path.startswith("/operator") else world.customer.reader

    page = world.client(user).get(path)

    assert page.status_code == 200
    assert "style=" not in page.content.decode()


def test_a_share_in_the_past_is_refused_in_words(world, market):
    page = world.client(world.operator).post(
        "/operator/shares/",
        {"what": "share", "share-percent": "70", "share-effective_from": "2026-11-01T00:00"},
    )

    assert "has passed" in page.content.decode()
    assert not ShareVersion.objects.exists()


def test_a_model_without_a_price_says_so(world):
    model = PricedModelFactory()

    page = world.client(world.operator).get(f"/operator/prices/{model.pk}/").content.decode()

    assert "cannot be sold" in page
    assert "No price was ever set" in page
