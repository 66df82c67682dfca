"""Usage is read by its owner alone, bounded and in a unique order."""

from datetime import timedelta

import pytest

from portal.core import ids
from portal.metering.models import Reader
from portal.metering.selectors import queued, usage
from portal.metering.services import spools
from tests.factories import metering as make

pytestmark = pytest.mark.django_db


def test_a_request_is_shown_with_all_attempts_to_its_own_organization_only():
    request_id = ids.uuid7()
    free = {"charge_nano": 0, "provider_nano": 0, "platform_nano": 0}
    make.usage_record(request_id=request_id, attempt=1, organization_id=7, outcome="node_fault", **free)
    make.usage_record(request_id=request_id, attempt=2, organization_id=7)

    mine = usage.by_request(organization_id=7, request_id=request_id)
    others = usage.by_request(organization_id=8, request_id=request_id)

    assert [(row.attempt, row.outcome) for row in mine] == [(1, "node_fault"), (2, "completed")]
    assert others == []


def test_pages_follow_one_another_without_gap_or_repetition():
    for minute in (1, 2, 2, 3):
        make.usage_record(organization_id=7, closed_at=make.AT + timedelta(minutes=minute))
    make.usage_record(organization_id=8)

    first = list(usage.of_organization(organization_id=7, limit=2))
    second = list(usage.of_organization(organization_id=7, before=(first[-1].closed_at, first[-1].request_id)))

    assert [row.closed_at.minute for row in [*first, *second]] == [3, 2, 2, 1]
    assert len({row.request_id for row in [*first, *second]}) == 4


def test_a_providers_page_has_its_records_only():
    mine = make.usage_record(provider_id=3)
    make.usage_record(provider_id=4)

    assert [row.request_id for row in usage.of_provider(provider_id=3)] == [mine.request_id]


def test_sums_by_day_model_and_key_add_up():
    day = timedelta(days=1)
    make.usage_record(organization_id=7, model_id=1)
    make.usage_record(organization_id=7, model_id=2)
    make.usage_record(organization_id=7, model_id=2, opened_at=make.AT + day)
    make.usage_record(organization_id=8)

    since, until = make.AT - day, make.AT + 2 * day
    by_day = usage.sums_of_organization(organization_id=7, since=since, until=until)
    by_model = usage.sums_of_organization(organization_id=7, since=since, until=until, by=("model_id",))

    assert [(row.group[0].day, row.attempts, row.charge_nano) for row in by_day] == [(30, 2, 4_000), (1, 1, 2_000)]
    assert [(row.group, row.prompt_tokens, row.provider_nano) for row in by_model] == [
        ((1,), 100, 1_600),
        ((2,), 200, 3_200),
    ]


def test_sums_are_half_open_and_of_at_most_92_days():
    make.usage_record(organization_id=7, closed_at=make.AT)

    at = usage.sums_of_organization(organization_id=7, since=make.AT, until=make.AT + timedelta(seconds=1))
    before = usage.sums_of_organization(organization_id=7, since=make.AT - timedelta(days=1), until=make.AT)
    far = usage.sums_of_organization(
        organization_id=7, since=make.AT - timedelta(days=1), until=make.AT + timedelta(days=93)
    )

    assert (len(at), before, far) == (1, [], [])


def test_an_unknown_dimension_is_refused():
    with pytest.raises(ValueError, match="prompt_text"):
        usage.sums_of_provider(provider_id=1, since=make.AT, until=make.AT, by=("prompt_text",))


def test_what_a_reader_has_not_taken_is_summed_by_lease():
    make.usage_record(lease_ids=[5], budget_lease_ids=[9])
    make.usage_record(lease_ids=[5])
    make.usage_record(lease_ids=[6])

    assert queued.queued_charge(reader=Reader.BILLING, lease_id=5) == 4_000
    assert queued.queued_budget_charge(reader=Reader.BILLING, budget_lease_id=9) == 2_000
    assert queued.queued_count(reader=Reader.TRUST) == 3


def test_a_spool_is_registered_once_and_its_life_is_noted():
    first = spools.register(public_id="spool_a", process="gateway@0", host="h", now=make.AT)
    again = spools.register(public_id="spool_a", process="gateway@9", host="h", now=make.AT)
    later = make.AT + timedelta(minutes=1)

    spools.touch(public_id="spool_a", now=later)
    drained = spools.mark_drained(public_id="spool_a", now=later)
    spools.touch(public_id="spool_a", now=later + timedelta(minutes=1))

    drained.refresh_from_db()
    assert (first.pk, again.process) == (again.pk, "gateway@0")
    assert (drained.state, drained.seen_at) == ("drained", later)
