"""What customers ask for lately, as placement reads it."""

from datetime import timedelta

import pytest

from portal.metering import tasks
from portal.metering.models import TurnedAway
from portal.metering.selectors import demand as selectors
from portal.metering.services import demand
from portal.metering.services.demand import Away
from portal.nodes.models import ModelPlacement, PlacementRound
from portal.nodes.rules.placement_facts import Demand
from tests.factories.catalog import CatalogModelFactory
from tests.factories.metering import AT, usage_record

NOW = AT + timedelta(minutes=5)


def away(model_id: int, requests: int = 1, *, reason: str = "full", at=NOW) -> Away:
    return Away(at=at, model_id=model_id, reason=reason, requests=requests)


def test_tokens_are_those_of_the_last_ten_minutes_a_minute(db):
    usage_record(model_id=7, prompt_tokens=700, completion_tokens=50)
    usage_record(model_id=7, prompt_tokens=200, completion_tokens=50)
    usage_record(model_id=8, opened_at=NOW - timedelta(minutes=30))

    assert selectors.by_model(now=NOW) == {7: Demand(tokens_a_minute=100, refused=0)}


def test_a_request_that_began_yesterday_counts_when_it_ends(db):
    usage_record(model_id=7, opened_at=AT - timedelta(hours=13), closed_at=AT)

    assert selectors.by_model(now=NOW)[7].tokens_a_minute == 15


def test_a_single_token_is_demand(db):
    usage_record(model_id=7, prompt_tokens=1, completion_tokens=0)

    assert selectors.by_model(now=NOW)[7].tokens_a_minute == 1


def test_what_was_turned_away_is_summed_a_minute_model_and_reason(db):
    demand.record_turned_away(away=[away(7, 2), away(7, 3, at=NOW + timedelta(seconds=30)), away(8)])
    demand.record_turned_away(away=[away(7, 4)])

    rows = TurnedAway.objects.order_by("model_id").values_list("minute", "model_id", "reason", "requests")
    assert list(rows) == [(NOW, 7, "full", 9), (NOW, 8, "full", 1)]
    assert selectors.by_model(now=NOW) == {7: Demand(0, 9), 8: Demand(0, 1)}


@pytest.mark.parametrize("reason", ["class", "region", "tools", "own", "price", "private", "trust"])
def test_what_a_keys_own_policy_turned_away_is_no_reason_for_another_node(db, reason):
    demand.record_turned_away(away=[away(7, 5, reason=reason)])

    assert selectors.by_model(now=NOW) == {}


def test_old_demand_counts_no_more_and_is_forgotten(db):
    demand.record_turned_away(away=[away(7, at=NOW - timedelta(minutes=11)), away(8, at=NOW - timedelta(days=8))])

    assert selectors.by_model(now=NOW) == {}
    assert demand.forget_old(now=NOW) == 1


def test_the_task_hands_demand_down_to_placement(db, time_machine):
    time_machine.move_to(NOW)
    model = CatalogModelFactory(plain=True)
    demand.record_turned_away(away=[away(model.pk, 6)])

    tasks.place_models()

    assert ModelPlacement.objects.get(model=model).seen["refused"] == 6
    assert not PlacementRound.objects.exists()
    assert "metering.place_models" in tasks.BEAT
