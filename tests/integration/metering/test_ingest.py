"""Usage comes in exactly once."""

import dataclasses
from datetime import date

import pytest
from django.db import DatabaseError, connection, transaction

from portal.metering.errors import SpoolClosed, SpoolUnknown, UsageConflict
from portal.metering.models import RefusedUsage, Spool, UsageQueue, UsageRecord
from portal.metering.services import ingest, partitions, spools
from tests.factories import metering as make

pytestmark = pytest.mark.django_db


def _batch(spool: Spool, count: int) -> list:
    return [make.usage_row(spool_id=spool.public_id, spool_seq=seq) for seq in range(1, count + 1)]


def test_a_batch_is_stored_queued_for_every_reader_and_advances_the_spool():
    spool = make.spool()
    rows = _batch(spool, 3)

    outcome = ingest.ingest(spool=spool.public_id, rows=rows, now=make.AT)

    assert (outcome.new, outcome.known, outcome.shipped_seq) == (3, 0, 3)
    assert UsageRecord.objects.count() == 3
    assert (
        sorted(UsageQueue.objects.values_list("reader", flat=True)) == ["billing"] * 3 + ["hours"] * 3 + ["trust"] * 3
    )
    stored = UsageRecord.objects.get(request_id=rows[0].request_id)
    assert stored.content_hash == rows[0].content_hash()
    for name in (field.name for field in dataclasses.fields(rows[0])):
        assert getattr(stored, name) == getattr(rows[0], name), name


def test_the_same_batch_again_changes_nothing():
    spool = make.spool()
    rows = _batch(spool, 3)
    ingest.ingest(spool=spool.public_id, rows=rows, now=make.AT)
    UsageQueue.objects.all().delete()

    again = ingest.ingest(spool=spool.public_id, rows=[*rows, *rows], now=make.AT)

    assert (again.new, again.known) == (0, 6)
    assert UsageRecord.objects.count() == 3
    assert UsageQueue.objects.count() == 0


def test_an_overlapping_batch_adds_only_what_is_new():
    spool = make.spool()
    rows = _batch(spool, 5)
    ingest.ingest(spool=spool.public_id, rows=rows[:3], now=make.AT)

    outcome = ingest.ingest(spool=spool.public_id, rows=rows[1:], now=make.AT)

    assert (outcome.new, outcome.known, outcome.shipped_seq) == (2, 2, 5)


def test_the_same_key_with_other_content_is_an_error_and_stores_nothing_of_its_batch():
    spool = make.spool()
    rows = _batch(spool, 2)
    ingest.ingest(spool=spool.public_id, rows=rows[:1], now=make.AT)
    forged = dataclasses.replace(rows[0], completion_tokens=51)

    with pytest.raises(UsageConflict) as refusal:
        ingest.ingest(spool=spool.public_id, rows=[rows[1], forged], now=make.AT)

    assert refusal.value.code == "usage_conflict"
    assert UsageRecord.objects.count() == 1
    assert Spool.objects.get().shipped_seq == 1


def test_a_request_is_charged_in_one_attempt_only():
    spool = make.spool()
    first, second = _batch(spool, 2)
    ingest.ingest(spool=spool.public_id, rows=[first], now=make.AT)
    twice = dataclasses.replace(second, request_id=first.request_id, attempt=2)

    with pytest.raises(UsageConflict):
        ingest.ingest(spool=spool.public_id, rows=[twice], now=make.AT)

    assert UsageRecord.objects.get().attempt == 1


def test_a_free_attempt_beside_a_charged_one_is_stored():
    spool = make.spool()
    first, second = _batch(spool, 2)
    free = dataclasses.replace(
        second,
        request_id=first.request_id,
        attempt=2,
        charge_nano=0,
        lease_charges=[0],
        provider_nano=0,
        platform_nano=0,
    )

    ingest.ingest(spool=spool.public_id, rows=[free, first], now=make.AT)

    assert UsageRecord.objects.filter(request_id=first.request_id).count() == 2


def test_a_contradicting_record_is_set_aside_and_the_spool_goes_on():
    spool = make.spool()
    rows = _batch(spool, 2)
    ingest.ingest(spool=spool.public_id, rows=rows[:1], now=make.AT)
    forged = dataclasses.replace(rows[0], spool_seq=2, completion_tokens=51)

    ingest.refuse(spool=spool.public_id, row=forged, error=UsageConflict("stored with other content"), now=make.AT)

    refused = RefusedUsage.objects.get()
    assert (refused.spool_seq, refused.code) == (2, "usage_conflict")
    assert refused.record["completion_tokens"] == 51
    assert Spool.objects.get().shipped_seq == 2


@pytest.mark.parametrize(
    "unsound",
    [
        {"charge_nano": 2_001},
        {"hold_nano": 1_999},
        {"cached_tokens": 101},
        {"completion_tokens": -1},
        {"provider_nano": 2_400, "platform_nano": -400},
    ],
)
def test_the_database_refuses_an_unsound_row(unsound):
    spool = make.spool()

    with pytest.raises(UsageConflict):
        ingest.ingest(spool=spool.public_id, rows=[make.usage_row(spool_id=spool.public_id, **unsound)], now=make.AT)

    assert not UsageRecord.objects.exists()


def test_usage_is_append_only():
    make.usage_record()

    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        UsageRecord.objects.update(charge_nano=0)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        UsageRecord.objects.all().delete()

    assert UsageRecord.objects.get().charge_nano == 2_000


def test_an_unknown_spool_is_refused():
    with pytest.raises(SpoolUnknown):
        ingest.ingest(spool="spool_never", rows=[make.usage_row()], now=make.AT)

    assert not UsageRecord.objects.exists()


def test_an_abandoned_spool_brings_nothing_more():
    spool = make.spool()
    spools.mark_abandoned(public_id=spool.public_id, reason="disk lost", actor=make.ACTOR, now=make.AT)

    with pytest.raises(SpoolClosed):
        ingest.ingest(spool=spool.public_id, rows=_batch(spool, 1), now=make.AT)

    assert not UsageRecord.objects.exists()


def test_partitions_are_made_ahead_once():
    day = date(2031, 5, 1)

    made = partitions.ensure(today=day, days=2)
    again = partitions.ensure(today=day, days=2)

    assert made == [f"metering_usagerecord_{name}" for name in ("20310501", "20310502", "20310503")]
    assert again == []


def test_a_day_without_a_partition_is_caught_and_stays_where_it_is():
    record = make.usage_record(opened_at=make.AT.replace(year=2032))

    made = partitions.ensure(today=record.opened_on, days=0)

    assert made == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM metering_usagerecord_default")
        assert cursor.fetchone()[0] == 1
