"""Two at once, with real transactions: one refund, one booking, never more than is there."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import DisputeMovement, Refund
from portal.billing.services import disputes, reconcile, refund_reading, refund_sending, refunds
from portal.core import clock
from portal.core.errors import DomainError
from tests.integration.returns.till import books_differ_by, paid, refunds_at, standing

pytestmark = pytest.mark.django_db(transaction=True)


def all_at_once(count: int, act: Callable[[], object]) -> list[str]:
    """Do it in so many threads; return the refusals' codes."""
    refused: list[str] = []
    begin = threading.Barrier(count)

    def run() -> None:
        begin.wait()
        try:
            act()
        except DomainError as error:
            refused.append(error.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def test_wishes_never_set_more_aside_than_is_there(shop):
    now = clock.now()
    topup = paid(shop, amount=5000, now=now)

    def ask() -> None:
        refunds.ask(
            organization=topup.organization,
            topup_public_id=topup.public_id,
            amount_minor=2000,
            note="",
            actor=SYSTEM_ACTOR,
            now=now,
        )

    refused = all_at_once(5, ask)

    assert (refused, Refund.objects.count(), standing(topup)) == (["not_refundable"] * 3, 2, (1000, 0, 4000))


def test_two_workers_send_one_refund(shop):
    now = clock.now()
    topup = paid(shop, amount=5000, now=now)
    refund = refunds.give(topup=topup, amount_minor=2000, note="", actor=SYSTEM_ACTOR, now=now)

    refused = all_at_once(4, lambda: refund_sending.send(refund_id=refund.pk, now=now))

    refund.refresh_from_db()
    assert (refused, refund.state, len(refunds_at(shop, topup)), standing(topup)) == ([], "succeeded", 1, (3000, 0, 0))


def test_the_same_news_at_once_is_booked_once(shop):
    now = clock.now()
    refunded, disputed = paid(shop, amount=5000, now=now), paid(shop, amount=5000, now=now)
    shop.double.control("refund", charge=refunded.charge, amount=2000)
    made = shop.double.control("dispute", charge=disputed.charge)

    def hear() -> None:
        refund_reading.read(charge=refunded.charge, now=now)
        disputes.read(dispute=made["id"], now=now)

    assert all_at_once(4, hear) == []

    assert (Refund.objects.count(), DisputeMovement.objects.count()) == (1, 1)
    assert (standing(refunded), standing(disputed), books_differ_by(disputed)) == ((3000, 0, 0), (0, 0, 0), 0)
    assert reconcile.differences(now=now) == []
