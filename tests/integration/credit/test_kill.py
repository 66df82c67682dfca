"""`kill -9` of the worker that charges a saved card, at each step: afterwards the card was charged once, or never.

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

from portal.billing.services import auto_topups, topup_sweep
from portal.core import clock
from tests.factories.payouts import balance_of
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[3]
CHARGE = """
import django; django.setup()
from portal.core import clock
from portal.billing.services import auto_topups
print(auto_topups.charge(topup_id={topup}, now=clock.now()).state, flush=True)
"""
DEADLINE_S = 60


@pytest.fixture
def begun(shop):
    """An automatic purchase whose card nobody has charged yet, committed."""
    now = clock.now()
    organization = saving.customer(shop, now=now)
    saving.turn_on(organization, now=now)
    saving.spend(organization, minor=600, now=now, key="1")
    return auto_topups.begin(organization_id=organization.pk, now=now)


def database_url():
    place = connection.settings_dict
    return f"postgresql://{place['USER']}@{place['HOST']}:{place['PORT']}/{place['NAME']}"


def start(topup, shop):
    """Start a child that charges the card."""
    environ = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.local",
        "DATABASE_URL": database_url(),
        "DATABASE_DIRECT_URL": database_url(),
        "REDIS_URL": settings.REDIS_URL,
        "STRIPE_API_KEY": "sk_test_pool",
        "STRIPE_API_BASE": shop.double.url,
        "STRIPE_TIMEOUT_S": "60",
    }
    return subprocess.Popen(
        [sys.executable, "-c", CHARGE.format(topup=topup.pk)],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(condition, child):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if condition():
            return
        assert child.poll() is None, child.communicate()
        time.sleep(0.02)
    raise AssertionError("the child never came to that step")


def kill(child):
    child.send_signal(signal.SIGKILL)
    child.communicate()


def armed(shop):
    return int(shop.double.store.rows("SELECT COALESCE(SUM(remaining), 0) FROM faults")[0][0])


def is_blocked():
    """Tell whether the child waits for a row of ours."""
    with psycopg.connect(database_url(), autocommit=True) as looking:
        found = looking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return found is not None and found[0] > 0


def assert_charged_once(topup, shop):
    """Do what the periodic task does once the worker counts as dead, then compare row, Stripe and ledger."""
    later = clock.now() + auto_topups.SILENT_AFTER + timedelta(minutes=1)
    topup_sweep.sweep(now=later)
    topup_sweep.sweep(now=later + timedelta(minutes=1))
    topup.refresh_from_db()
    assert topup.state == "paid"
    assert [one["id"] for one in saving.payments(shop, topup)] == [topup.payment_intent]
    assert saving.credit_minor(topup.organization) == 400 + 2000
    charges = shop.double.store.all("charge")
    paid = sum(one["amount"] for one in charges)
    assert balance_of("stripe_balance") + balance_of("stripe_fees") == paid * saving.CENT


@pytest.mark.parametrize(("when", "at_stripe"), [("before", 0), ("after", 1)])
def test_killed_while_it_waits_for_stripe(shop, begun, when, at_stripe):
    shop.double.control("fail", path="/v1/payment_intents", kind="timeout", when=when)
    child = start(begun, shop)
    wait_for(lambda: armed(shop) == 0 and len(saving.payments(shop, begun)) == at_stripe, child)

    kill(child)

    begun.refresh_from_db()
    assert (begun.state, begun.sent_at is not None) == ("created", True)
    assert auto_topups.begin(organization_id=begun.organization_id, now=clock.now()) is None
    assert_charged_once(begun, shop)


def test_killed_before_it_could_claim(shop, begun):
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT 1 FROM billing_topup WHERE id = %s FOR UPDATE", [begun.pk])
        child = start(begun, shop)
        wait_for(is_blocked, child)
        kill(child)

    # The server may still finish the claim of a client that is gone: that is a worker that died right after it.
    begun.refresh_from_db()
    assert (begun.state, saving.payments(shop, begun)) == ("created", [])
    assert_charged_once(begun, shop)


def test_killed_between_stripes_answer_and_the_ledger(shop, begun):
    account = f"customer_receivable:{begun.organization.public_id}"
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT 1 FROM billing_ledgeraccount WHERE code = %s FOR UPDATE", [account])
        child = start(begun, shop)
        wait_for(lambda: len(saving.payments(shop, begun)) == 1 and is_blocked(), child)
        kill(child)

    begun.refresh_from_db()
    assert (begun.state, begun.payment_intent, len(saving.payments(shop, begun))) == ("created", None, 1)
    assert_charged_once(begun, shop)
