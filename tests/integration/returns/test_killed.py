"""`kill -9` of the process that sends a refund, at each step: afterwards it is sent once, and the books agree.

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

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import Refund
from portal.billing.services import reconcile, refund_reading, refund_sending, refunds
from portal.core import clock
from tests.integration.returns.till import books_differ_by, paid, refunds_at, standing

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[3]
SEND = """
import django; django.setup()
from portal.core import clock
from portal.billing.services import refund_sending
print(refund_sending.send(refund_id={refund}, now=clock.now()).state, flush=True)
"""
DEADLINE_S = 60


@pytest.fixture
def approved(shop) -> Refund:
    """An approved refund, committed."""
    now = clock.now()
    topup = paid(shop, amount=5000, now=now)
    return refunds.give(topup=topup, amount_minor=2000, note="", actor=SYSTEM_ACTOR, now=now)


def database_url() -> str:
    """Return the URL of the test database."""
    place = connection.settings_dict
    return f"postgresql://{place['USER']}@{place['HOST']}:{place['PORT']}/{place['NAME']}"


def start(refund: Refund, shop) -> "subprocess.Popen[bytes]":
    """Start a child that sends the refund."""
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
        [sys.executable, "-c", SEND.format(refund=refund.pk)],
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


def is_blocked() -> bool:
    """Tell whether another connection waits for a row of ours."""
    with psycopg.connect(database_url(), autocommit=True) as looking:
        found = looking.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return found is not None and found[0] > 0


def assert_given_back_once(refund: Refund, shop) -> None:
    """Do what the periodic task does once the sender counts as dead; check refund, Stripe and ledger."""
    later = clock.now() + refund_sending.SILENT_AFTER + timedelta(seconds=1)
    for minutes in (0, 2, 4):
        refund_reading.sweep(now=later + timedelta(minutes=minutes))
    refund.refresh_from_db()
    assert refund.state == "succeeded"
    assert [one["id"] for one in refunds_at(shop, refund.topup)] == [refund.stripe_refund]
    assert (standing(refund.topup), books_differ_by(refund.topup)) == ((3000, 0, 0), 0)
    assert reconcile.differences(now=clock.now()) == []


@pytest.mark.parametrize(("when", "at_stripe"), [("before", 0), ("after", 1)])
def test_killed_while_it_waits_for_stripe(shop, approved, when, at_stripe):
    shop.double.control("fail", method="POST", path="/v1/refunds", kind="timeout", when=when)
    child = start(approved, shop)
    wait_for(lambda: armed_faults(shop) == 0 and len(refunds_at(shop, approved.topup)) == at_stripe, child)

    kill(child)

    approved.refresh_from_db()
    assert (approved.state, len(refunds_at(shop, approved.topup))) == ("sending", at_stripe)
    assert_given_back_once(approved, shop)


def test_killed_before_it_could_claim(shop, approved):
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT 1 FROM billing_refund WHERE id = %s FOR UPDATE", [approved.pk])
        child = start(approved, shop)
        wait_for(is_blocked, child)
        kill(child)

    approved.refresh_from_db()
    assert (approved.state, refunds_at(shop, approved.topup)) == ("reserved", [])
    assert_given_back_once(approved, shop)


def test_killed_between_stripes_answer_and_the_ledger(shop, approved):
    with psycopg.connect(database_url()) as other:
        account = "SELECT 1 FROM billing_ledgeraccount WHERE code = %s FOR UPDATE"
        other.execute(account, [f"refund_clearing:{approved.organization.public_id}"])
        child = start(approved, shop)
        wait_for(is_blocked, child)
        kill(child)

    approved.refresh_from_db()
    assert (approved.state, approved.stripe_refund, len(refunds_at(shop, approved.topup))) == ("sending", None, 1)
    assert_given_back_once(approved, shop)
