"""Usage is summed by the hour it ended in: every record once, whatever the order and the batches."""

from datetime import timedelta

import psycopg
import pytest
from django.db import connection

from portal.metering.models import Reader, UsageHour
from portal.metering.selectors import hours as selector
from portal.metering.selectors.queued import queued_count
from portal.metering.services import hours
from tests.factories import metering as make

pytestmark = pytest.mark.django_db

FREE = {"charge_nano": 0, "provider_nano": 0, "platform_nano": 0}


def test_records_of_one_hour_are_summed_and_another_hour_is_its_own():
    make.usage_record(closed_at=make.AT + timedelta(minutes=59, seconds=59))
    make.usage_record(closed_at=make.AT + timedelta(minutes=3), claimed_completion_tokens=None)
    make.usage_record(closed_at=make.AT + timedelta(hours=1))

    added = hours.add_all()

    first, second = UsageHour.objects.order_by("hour")
    assert added == 3
    assert first.hour == make.AT
    assert (first.attempts, first.charged, first.prompt_tokens, first.completion_tokens) == (2, 2, 200, 100)
    assert (first.claimed_tokens, first.counted_tokens) == (50, 49)
    assert (first.charge_nano, first.provider_nano, first.first_token_ms, first.streams) == (4_000, 3_200, 400, 2)
    assert (second.hour, second.attempts) == (make.AT + timedelta(hours=1), 1)


def test_an_attempt_that_failed_is_counted_as_a_fault_and_not_as_charged():
    make.usage_record(outcome="node_fault", prompt_tokens=0, completion_tokens=0, first_token_at=None, **FREE)
    make.usage_record(outcome="customer_abort")

    hours.add_all()

    hour = UsageHour.objects.get()
    assert (hour.attempts, hour.charged, hour.faults, hour.streams) == (2, 1, 1, 1)


# litellm#29292: the first hundred entities of a flush were kept and the rest lost.
def test_facts_equal_aggregates_over_many_owners_and_small_batches():
    for number in range(120):
        make.usage_record(organization_id=number % 40, api_key_id=number, node_id=number % 7)

    while hours.add_new(limit=7):
        pass

    assert queued_count(reader=Reader.HOURS) == 0
    assert UsageHour.objects.count() == 120
    assert sum(UsageHour.objects.values_list("charge_nano", flat=True)) == 240_000
    assert list(selector.differing_days()) == []


# litellm#6895, #27989, #34887: updates of the same sums deadlocked, and their spend was dropped.
@pytest.mark.django_db(transaction=True)
def test_while_one_aggregator_works_another_leaves_everything_to_it():
    make.usage_record()
    with psycopg.connect(**_address()) as other, other.cursor() as cursor:
        cursor.execute(hours.ALONE)

        assert hours.add_all() == 0
        assert queued_count(reader=Reader.HOURS) == 1

    assert hours.add_all() == 1
    assert UsageHour.objects.get().attempts == 1


def _address() -> dict[str, object]:
    given = connection.get_connection_params()
    return {name: given[name] for name in ("dbname", "user", "host", "port") if name in given}


def test_a_second_run_adds_nothing():
    make.usage_record()
    hours.add_all()

    assert hours.add_all() == 0
    assert UsageHour.objects.get().attempts == 1


def test_an_hour_that_lost_a_record_is_named_with_both_sides():
    make.usage_record()
    make.usage_record()
    hours.add_all()
    UsageHour.objects.update(attempts=1, charge_nano=2_000)

    (day,) = selector.differing_days()

    assert (day.day, day.recorded, day.summed) == (make.AT.date(), "2/300/4000/3200", "1/300/2000/3200")
