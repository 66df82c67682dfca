"""Real transactions on several connections: no credit is spent twice, no record is booked twice, nothing deadlocks."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event

import pytest
from django.db import OperationalError, connection, connections, transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing import locks
from portal.billing.errors import BelowFloor, InsufficientCredit, KeyReused
from portal.billing.models import EarningMaturity, LedgerTransfer, LedgerTx, UsagePosting
from portal.billing.rules.accounts import Kind
from portal.billing.rules.periods import month_of
from portal.billing.selectors import balances
from portal.billing.services import closing, ledger, maturity, posting, reconcile
from portal.metering.models import UsageQueue
from tests.factories.billing import DELIVERED, Market

pytestmark = pytest.mark.django_db(transaction=True)
LATER = DELIVERED + timedelta(minutes=1)
CHARGE = 600_000


def at_once(*actions):
    """Run the actions on connections of their own, started together; return their results or refusals in order."""
    barrier = Barrier(len(actions))

    def run(action):
        try:
            barrier.wait(10)
            return action()
        except (BelowFloor, InsufficientCredit, KeyReused) as refusal:
            return refusal
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(30) for future in [pool.submit(run, action) for action in actions]]


def credit(owner="org_a"):
    return ledger.account(Kind.CUSTOMER_CREDIT, owner, currency="usd")


def bank():
    return ledger.account(Kind.STRIPE_BALANCE, currency="usd")


def move(debit, credit_, amount, key):
    return ledger.post(
        kind="test",
        key=key,
        source_type="test",
        source_id=key,
        transfers=[ledger.Transfer(debit, credit_, amount)],
        actor=SYSTEM_ACTOR,
        now=DELIVERED,
    )


def test_one_balance_is_not_held_twice():
    move(bank(), credit(), 1000, "in")

    results = at_once(*[lambda: ledger.hold(credit().pk, 600)] * 4)

    assert sorted(type(result).__name__ for result in results) == ["InsufficientCredit"] * 3 + ["NoneType"]
    credit().refresh_from_db()
    assert (ledger.balance(credit()), credit().held) == (1000, 600)


def test_one_balance_is_not_spent_twice():
    move(bank(), credit(), 1000, "in")

    results = at_once(*[lambda n=n: move(credit(), bank(), 300, f"out:{n}") for n in range(8)])

    assert sum(isinstance(result, LedgerTx) for result in results) == 3
    assert ledger.balance(credit()) == 100


def test_one_event_told_by_many_is_booked_once():
    results = at_once(*[lambda: move(bank(), credit(), 700, "topup:1")] * 6)

    assert len({result.pk for result in results}) == 1
    assert LedgerTransfer.objects.count() == 1
    assert ledger.balance(credit()) == 700


def test_one_key_for_two_events_is_refused_to_one_of_them():
    results = at_once(lambda: move(bank(), credit(), 700, "k"), lambda: move(bank(), credit(), 701, "k"))

    assert sorted(type(result).__name__ for result in results) == ["KeyReused", "LedgerTx"]
    assert LedgerTransfer.objects.count() == 1


def test_an_account_opened_by_many_is_one():
    ids = at_once(*[lambda: credit("org_new").pk] * 6)

    assert len(set(ids)) == 1


def test_crossed_transfers_do_not_deadlock():
    move(bank(), credit("org_a"), 10_000, "in:a")
    move(bank(), credit("org_b"), 10_000, "in:b")

    def cross(debit, credit_, name):
        for number in range(20):
            move(credit(debit), credit(credit_), 1, f"{name}:{number}")

    at_once(lambda: cross("org_a", "org_b", "ab"), lambda: cross("org_b", "org_a", "ba"))

    assert (ledger.balance(credit("org_a")), ledger.balance(credit("org_b"))) == (10_000, 10_000)


def test_two_posters_share_the_queue():
    markets = [Market(), Market()]
    for _ in range(10):
        for market in markets:
            market.serve()

    results = at_once(*[lambda: posting.post_all(now=LATER, limit=3)] * 3)

    assert sum(result.records for result in results) == 20
    assert UsagePosting.objects.count() == 20
    assert not UsageQueue.objects.filter(reader="billing").exists()
    for market in markets:
        paid = balances.customer_balance(organization=market.customer.public_id).paid_nano
        assert paid == 10_000_000_000 - 10 * CHARGE
    assert reconcile.differences(now=LATER) == []


def test_posting_and_leasing_do_not_deadlock():
    market = Market()
    for _ in range(12):
        market.serve()

    at_once(
        lambda: posting.post_all(now=LATER, limit=2),
        *[lambda: [market.lease(1_000) for _ in range(10)]] * 2,
    )
    posting.post_all(now=LATER)

    assert UsagePosting.objects.count() == 12
    assert reconcile.differences(now=LATER) == []


def test_an_earning_matures_once(settings):
    settings.PAYOUT_HOLD_DAYS = 0
    market = Market()
    for _ in range(4):
        market.serve()
    posting.post_all(now=LATER, limit=1)

    matured = at_once(*[lambda: maturity.mature(now=LATER, limit=3)] * 3)

    assert sum(matured) + maturity.mature(now=LATER) == 4
    assert not EarningMaturity.objects.filter(matured_tx=None).exists()
    assert balances.provider_balance(provider=market.provider.public_id).available_nano == 4 * CHARGE * 8 // 10
    assert reconcile.differences(now=LATER) == []


def test_a_month_closes_after_whoever_is_writing_to_it():
    november = month_of(DELIVERED)
    after = november.ends_at + timedelta(days=2)
    market = Market()
    market.serve()
    is_locked, may_commit = Event(), Event()

    def write_slowly():
        with transaction.atomic():
            posting.post_usage(now=LATER)
            is_locked.set()
            assert may_commit.wait(10)

    def close():
        assert is_locked.wait(10)
        closing.close_period(period=november, now=after)
        return LedgerTx.objects.filter(kind="usage").count()

    def let_go():
        assert is_locked.wait(10)
        _wait_for_a_waiter()
        may_commit.set()

    _, seen, _ = at_once(write_slowly, close, let_go)

    assert seen == 1
    assert LedgerTx.objects.get(kind="usage").effective_at in november


def test_a_poster_killed_in_the_middle_leaves_nothing_half_done():
    market = Market()
    for _ in range(5):
        market.serve()
    program = (
        "import django; django.setup();"
        "from portal.billing.services import posting; from portal.core import clock;"
        "posting.post_usage(now=clock.now())"
    )
    payer = credit(market.customer.public_id)
    environ = os.environ | {"DATABASE_URL": _test_database()}
    with transaction.atomic():
        locks.accounts([payer.pk])
        with subprocess.Popen([sys.executable, "-c", program], env=environ) as child:
            try:
                _wait_for_a_waiter()
            finally:
                child.kill()
        assert child.returncode == -9

    assert UsagePosting.objects.count() == 0
    _until_unlocked()
    posted = posting.post_usage(now=LATER)

    assert posted.records == 5
    assert balances.customer_balance(organization=market.customer.public_id).paid_nano == 10_000_000_000 - 5 * CHARGE
    assert reconcile.differences(now=LATER) == []


def _test_database() -> str:
    its = connection.settings_dict
    return f"postgresql://{its['USER']}@{its['HOST']}:{its['PORT']}/{its['NAME']}"


def _wait_for_a_waiter() -> None:
    """Wait until some other connection to this database waits for a lock."""
    deadline = time.monotonic() + 20
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0]:
                return
            Event().wait(0.02)
    raise AssertionError("nobody waits for a lock")


def _until_unlocked() -> None:
    """Wait until the server has noticed that the killed client is gone."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with transaction.atomic():
                list(UsageQueue.objects.select_for_update(nowait=True))
        except OperationalError:
            Event().wait(0.05)
        else:
            return
    raise AssertionError("the killed poster still holds its rows")
