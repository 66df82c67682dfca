"""Usage that the books lost comes back from its receipts, and the same credit pays for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import Recovery
from portal.billing.services import freeze, posting, receipts, usage_recovery
from portal.core.money import NANO_PER_UNIT
from portal.metering.models import Spool, UsageRecord
from tests.factories.billing import DELIVERED, Market, ServingNodeFactory
from tests.factories.payouts import balance_of
from tests.factories.receipts import PUBLIC_KEY, SEED, claim_of, serve

pytestmark = pytest.mark.django_db


@pytest.fixture
def market(settings) -> Market:
    settings.RECEIPT_SIGNING_KEY = SEED
    return Market(node=ServingNodeFactory(public_key=PUBLIC_KEY), promo_nano=900_000, lease_nano=0)


@contextmanager
def lost() -> Iterator[None]:
    """Lose all that is written within."""
    point = transaction.savepoint()
    yield
    transaction.savepoint_rollback(point)


def receipts_of(market: Market, *, count: int) -> list[dict[str, object]]:
    """Serve requests and let the pool sign them."""
    market.leases = market.lease(NANO_PER_UNIT)
    claims = [claim_of(serve(market)) for _ in range(count)]
    posting.post_all(now=DELIVERED)
    outcomes = receipts.countersign(node_id=market.node.pk, claims=claims, now=DELIVERED)
    return [dict(one.receipt or {}) for one in outcomes]


def test_a_gift_pays_as_far_as_it_reaches_however_many_receipts_come(market, monkeypatch):
    monkeypatch.setattr(usage_recovery, "_BATCH", 1)
    with lost():
        found = receipts_of(market, count=2)
    assert not UsageRecord.objects.exists()
    recovery = freeze.begin(known_until=DELIVERED, actor=SYSTEM_ACTOR, now=DELIVERED)

    taken = usage_recovery.take_over(recovery=recovery, found=found, actor=SYSTEM_ACTOR, now=DELIVERED)
    posting.post_all(now=DELIVERED)

    owner = market.customer.public_id
    assert (taken.new, taken.charge_nano, dict(taken.left_out)) == (2, 1_200_000, {})
    assert balance_of("promo_credit", owner) == 0
    assert balance_of("customer_credit", owner) == market.paid_nano - 300_000
    assert balance_of("customer_receivable", owner) == 0
    assert Spool.objects.get(process="recovery").state == "drained"


def test_what_names_somebody_who_is_lost_is_left_out_by_code(market):
    with lost():
        stranger = Market(node=market.node, model=market.model)
        found = [*receipts_of(market, count=1), *receipts_of(stranger, count=1)]
    recovery = freeze.begin(known_until=DELIVERED, actor=SYSTEM_ACTOR, now=DELIVERED)

    taken = usage_recovery.take_over(
        recovery=recovery, found=[*found, *found, {"claim": {}}], actor=SYSTEM_ACTOR, now=DELIVERED
    )

    assert (taken.new, taken.known) == (1, 2)
    assert dict(taken.left_out) == {"organization_missing": 1, "receipt_unsound": 1}
    assert UsageRecord.objects.count() == 1


@pytest.mark.parametrize(
    ("option", "content", "why"),
    [
        ("--receipts", None, "No such file"),
        ("--receipts", "{}\nnonsense\n", "line 2 is not JSON"),
        ("--receipts", "[" * 100_000, "line 1 is not JSON"),
        ("--spools", None, "is not a folder"),
    ],
)
def test_what_cannot_be_read_is_named_before_anything_is_changed(tmp_path, option, content, why):
    file = tmp_path / "given"
    if content is not None:
        file.write_text(content)

    with pytest.raises(CommandError, match=f"file_unreadable: .*given: {why}"):
        call_command("recover", "--after-restore", "--apply", "--since", "2026-11-01T00:00:00Z", option, str(file))

    assert not Recovery.objects.exists()


def test_an_empty_book_needs_to_be_told_since_when():
    with pytest.raises(CommandError, match="--since"):
        call_command("recover", "--after-restore")
