"""What pages and other rooms read of the ledger."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from portal.audit.services import SYSTEM_ACTOR
from portal.billing import tasks
from portal.billing.models import ClosedPeriod, Statement
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances, earnings, journal, ledger_accounts, spend, transactions
from portal.billing.selectors.balances import CustomerBalance, ProviderBalance
from portal.billing.services import grants, ledger, maturity, posting, reconcile, templates
from portal.payouts import tasks as payout_tasks
from tests.factories.accounts import ApiKeyFactory
from tests.factories.billing import DELIVERED, Market
from tests.integration.billing.test_differences import tamper

pytestmark = pytest.mark.django_db
CHARGE, SHARE = 600_000, 480_000
DECEMBER = datetime(2026, 12, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_december():
    """Tasks read the clock; it stands still."""
    with time_machine.travel(DECEMBER, tick=False):
        yield


@pytest.fixture
def market(settings):
    settings.PAYOUT_HOLD_DAYS = 0
    made = Market(promo_nano=100, lease_nano=0)
    made.promo, made.paid = made.lease(CHARGE * 3)
    made.leases = [made.paid]
    made.serve()
    posting.post_usage(now=DELIVERED)
    return made


def pay(market, template, amount, key):
    ledger.post(
        kind=template.__name__,
        key=key,
        source_type="payout",
        source_id=key,
        transfers=template(provider=market.provider.public_id, amount=amount, currency="usd"),
        actor=SYSTEM_ACTOR,
        now=DELIVERED,
    )


def test_a_customers_balance_has_four_parts(market):
    balance = balances.customer_balance(organization=market.customer.public_id)

    held = balance.held_nano
    assert balance == CustomerBalance(10_000_000_000 - CHARGE, 100, held, 0)
    assert balance.total_nano == 10_000_000_100 - CHARGE
    assert balance.free_nano == balance.total_nano - held
    assert balances.customer_balance(organization="org_nobody") == CustomerBalance(0, 0, 0, 0)


def test_a_payout_moves_from_available_to_paid(market):
    name = market.provider.public_id
    assert balances.provider_balance(provider=name) == ProviderBalance(SHARE, 0, 0, 0)
    maturity.mature(now=DELIVERED)
    assert balances.available_by_provider() == {name: SHARE}

    pay(market, templates.payout_reserved, 300, "reserve")
    assert balances.provider_balance(provider=name) == ProviderBalance(0, SHARE - 300, 300, 0)
    pay(market, templates.payout_sent, 300, "sent")
    assert earnings.paid_out(provider=name) == 300
    pay(market, templates.transfer_reversed, 100, "back")

    assert earnings.paid_out(provider=name) == 200
    shown = transactions.provider_movements(provider=name)
    assert sorted((row.kind, row.amount_nano) for row in shown) == [("payout_sent", -300), ("transfer_reversed", 100)]


def test_a_customers_movements_leave_usage_out_unless_asked(market):
    name = market.customer.public_id

    shown = transactions.customer_movements(organization=name)
    assert sorted((row.kind, row.amount_nano) for row in shown) == [("promo_grant", 100), ("topup", 10_000_000_000)]
    with_usage = transactions.customer_movements(organization=name, with_usage=True)
    assert next((row.kind, row.amount_nano) for row in with_usage) == ("usage", -CHARGE)
    assert len(transactions.customer_movements(organization=name, limit=1, offset=1)) == 1


def test_accounts_are_found_by_kind_and_owner(market):
    name = market.customer.public_id

    (found,) = ledger_accounts.accounts(now=DELIVERED, kind=Kind.CUSTOMER_CREDIT, owner=name)
    assert found.balance_nano == 10_000_000_000 - CHARGE
    (bank,) = ledger_accounts.accounts(now=DELIVERED, kind=Kind.STRIPE_BALANCE)
    assert (bank.debits, bank.balance_nano) == (10_000_000_000, 10_000_000_000)


def test_the_journal_is_found_by_source(market):
    (tx,) = journal.newest(asked=journal.Asked(source="welcome"))

    assert tx.kind == "promo_grant"
    assert "usage" in journal.kinds()


def test_a_grant_is_given_once(market):
    given = {"organization": market.customer, "amount_nano": 100, "key": "welcome", "actor": SYSTEM_ACTOR}

    grants.grant_promo(**given, now=DELIVERED)

    assert balances.customer_balance(organization=market.customer.public_id).promo_nano == 100


def test_what_was_spent_is_summed_by_day(market):
    day = DELIVERED.date()

    assert spend.spent(organization_id=market.customer.pk, first=day, last=day) == CHARGE
    assert (
        spend.spent(organization_id=market.customer.pk, first=day - timedelta(days=9), last=day - timedelta(days=1))
        == 0
    )
    assert earnings.totals(provider_id=market.provider.pk, first=day, last=day) == earnings.Totals(1, CHARGE, SHARE)


def test_keys_of_one_name_are_told_apart(market):
    twin = ApiKeyFactory(organization=market.customer, name=market.key.name)
    foreign = ApiKeyFactory()

    names = spend.key_names(organization_id=market.customer.pk, ids={market.key.pk, twin.pk, foreign.pk})

    assert names == {key.pk: f"{key.name} ({key.public_id})" for key in (market.key, twin)}


def test_the_formula_waits_for_a_booked_request(market):
    assert earnings.last_example(provider_id=market.provider.pk).earned_nano == SHARE
    tamper("DELETE FROM billing_usageposting")

    assert earnings.last_example(provider_id=market.provider.pk) is None
    assert earnings.last_example(provider_id=0) is None


def test_tasks_may_run_twice(market, caplog):
    market.serve()

    for task in (tasks.post_usage, tasks.mature_earnings, tasks.freeze_statements, tasks.publish_books):
        task()
        task(unknown="ignored")

    assert balances.provider_balance(provider=market.provider.public_id).available_nano == 2 * SHARE
    assert ClosedPeriod.objects.get().ends_at == datetime(2026, 12, 1, tzinfo=UTC)
    assert sorted(Statement.objects.values_list("number", flat=True)) == ["C-2026-11-0001", "P-2026-11-0001"]
    assert caplog.messages == []


def test_tasks_shout(market, caplog):
    market.serve(provider_id=987_654)

    tasks.post_usage()
    payout_tasks.check_ledger()

    assert "billing.usage_unpostable" in caplog.messages
    assert "ledger.difference" in caplog.messages


def test_a_statement_that_was_changed_is_found(market):
    tasks.freeze_statements()
    tamper("UPDATE billing_statement SET content = jsonb_set(content, '{opening}', '\"7\"')")

    codes = {found.code for found in reconcile.differences(now=DELIVERED)}

    assert codes == {"statement_changed", "statement_does_not_add_up"}
