"""`kill -9` of the process that sends a payout, at each step: afterwards it is sent once, or not at all and said so.

A real child process, real connections, a real stand-in; the moment is chosen by what the child waits for.
"""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from portal.core import clock
from portal.payouts.models import Payout
from portal.payouts.selectors.reconcile import differences
from portal.payouts.services import reconcile, runs
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[3]
SEND = """
import django; django.setup()
from portal.core import clock
from portal.payouts.services import sending
print(sending.send(payout_id={payout}, now=clock.now()).state, flush=True)
"""
DEADLINE_S = 60


@pytest.fixture
def approved(shop):
    """An approved payout, committed."""
    now = clock.now()
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    return shop.approved(provider, now=now)


def database_url() -> str:
    """Return the URL of the test database."""
    place = connection.settings_dict
    return f"postgresql://{place['USER']}@{place['HOST']}:{place['PORT']}/{place['NAME']}"


def start(payout: Payout, shop) -> "subprocess.Popen[bytes]":
    """Start a child that sends the payout."""
    environ = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.local",
        "DATABASE_URL": database_url(),
        "DATABASE_DIRECT_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        "STRIPE_API_KEY": "sk_test_pool",
        "STRIPE_API_BASE": shop.double.url,
        "STRIPE_TIMEOUT_S": "60",
        "PAYOUT_MINIMUM_MINOR": "100",
    }
    return subprocess.Popen(
        [sys.executable, "-c", SEND.format(payout=payout.pk)],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(condition, child) -> None:
    """Wait until the child has come to the chosen step."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if condition():
            return
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    raise AssertionError("the child never came to that step")


def kill(child) -> None:
    """End it as the kernel does when memory runs out."""
    child.send_signal(signal.SIGKILL)
    child.communicate()


def armed_faults(shop) -> int:
    """Return how many failures still wait for their request."""
    return int(shop.double.store.rows("SELECT COALESCE(SUM(remaining), 0) FROM faults")[0][0])


def is_blocked(payout: Payout) -> bool:
    """Tell whether another connection waits for a row of ours."""
    with psycopg.connect(database_url(), autocommit=True) as looking:
        found = looking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return found is not None and found[0] > 0


def settle(payout: Payout) -> Payout:
    """Do what the periodic task does, after the time in which a sender counts as alive."""
    later = clock.now() + reconcile.SILENT_AFTER + timedelta(seconds=1)
    runs.run(now=later)
    runs.run(now=later)
    payout.refresh_from_db()
    return payout


def assert_paid_once(payout: Payout, shop) -> None:
    """Check the payout, Stripe and the ledger against each other."""
    assert payout.state == "transferred"
    assert [one["id"] for one in shop.transfers(payout)] == [payout.stripe_transfer]
    assert balance_of("payout_clearing", payout.provider.public_id) == 0
    assert balance_of("provider_available", payout.provider.public_id) == 0
    assert differences(now=clock.now()) == []


@pytest.mark.parametrize(
    ("method", "path", "when", "at_stripe"),
    [
        ("GET", "/v2/core/accounts", "before", 0),
        ("POST", "/v1/transfers", "before", 0),
        ("POST", "/v1/transfers", "after", 1),
    ],
    ids=["while it looks at the account", "before Stripe acts", "after Stripe has acted"],
)
def test_killed_while_it_waits_for_stripe(shop, approved, method, path, when, at_stripe):
    shop.double.control("fail", method=method, path=path, kind="timeout", when=when)
    child = start(approved, shop)
    wait_for(lambda: armed_faults(shop) == 0 and len(shop.transfers(approved)) == at_stripe, child)

    kill(child)

    approved.refresh_from_db()
    assert (approved.state, len(shop.transfers(approved))) == ("sending", at_stripe)
    assert_paid_once(settle(approved), shop)


def test_killed_before_it_could_claim(shop, approved):
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT 1 FROM payouts_payout WHERE id = %s FOR UPDATE", [approved.pk])
        child = start(approved, shop)
        wait_for(lambda: is_blocked(approved), child)
        kill(child)

    approved.refresh_from_db()
    assert (approved.state, shop.transfers(approved)) == ("approved", [])
    assert_paid_once(settle(approved), shop)


def test_killed_between_stripes_answer_and_the_ledger(shop, approved):
    shop.double.control("fail", path="/v1/transfers", kind="timeout", when="before")
    child = start(approved, shop)
    wait_for(lambda: armed_faults(shop) == 0, child)
    kill(child)
    Payout.objects.filter(pk=approved.pk).update(state="approved")
    with psycopg.connect(database_url()) as other:
        account = "SELECT 1 FROM billing_ledgeraccount WHERE code = %s FOR UPDATE"
        other.execute(account, [f"payout_clearing:{approved.provider.public_id}"])
        child = start(approved, shop)
        wait_for(lambda: is_blocked(approved), child)
        kill(child)

    approved.refresh_from_db()
    assert (approved.state, approved.stripe_transfer, len(shop.transfers(approved))) == ("sending", None, 1)
    assert_paid_once(settle(approved), shop)


def test_left_alone_it_is_sent_by_the_child(shop, approved):
    child = start(approved, shop)

    output, errors = child.communicate(timeout=DEADLINE_S)

    assert output.decode().strip() == "transferred", errors.decode()
    approved.refresh_from_db()
    assert_paid_once(approved, shop)
