"""Making room: only what was placed automatically, has stayed and can be spared goes, and it is drained first."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.nodes.rules.placement import Round
from portal.nodes.rules.placement_facts import DeploymentFact, ModelFact, NodeFact, Policy
from tests.unit.nodes.placing import (
    ASKED,
    LONG_AGO,
    NOW,
    Demand,
    decided,
    gpus,
    model,
    moves,
    node,
    running,
    serving,
    verdict,
)

SPARE = {"idle_since": LONG_AGO, "short_since": None}


def test_a_spare_model_makes_room_for_a_short_one():
    found = decided([serving(1, running(2))], [model(1, demand=ASKED), model(2, **SPARE)])

    assert moves(found) == [("stop", "acme/m2", "node_1")]
    assert verdict(found, model="acme/m2") == replace(
        verdict(found, model="acme/m2"), action="stop", code="placement_makes_room", detail="acme/m1"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (running(2, is_persons=True), model(2, **SPARE)),
        (running(2, since=NOW - timedelta(minutes=59)), model(2, **SPARE)),
        (running(2), model(2, idle_since=NOW - timedelta(minutes=29), short_since=None)),
        (running(2), model(2, minimum=1, **SPARE)),
        (running(2, running=1), model(2, **SPARE)),
        (running(2), model(2, demand=ASKED, **SPARE)),
    ],
    ids=[
        "a person's",
        "has not stayed",
        "is not spare for long",
        "is the last of its minimum",
        "serves",
        "is asked for",
    ],
)
def test_anything_else_stays(one: DeploymentFact, other: ModelFact):
    found = decided([serving(1, one)], [model(1, demand=ASKED), other])

    assert moves(found) == []
    assert verdict(found).code == "placement_gpus_taken"


def test_the_deployment_with_the_fewest_requests_goes():
    nodes = [serving(1, running(2, running=2)), serving(2, running(2), gpus=gpus(of=2))]

    found = decided(nodes, [model(1, demand=ASKED), model(2, **SPARE)])

    assert moves(found) == [("stop", "acme/m2", "node_2")]


def test_the_place_is_given_away_once_the_engine_is_gone_and_not_before():
    models = [model(1, demand=ASKED), model(2, **SPARE)]
    draining = serving(1, running(2, is_wanted=False, observed="draining", running=1))
    gone = node(1, deployments=(running(2, is_wanted=False, observed="stopped"),))

    assert moves(decided([draining], models)) == []
    assert verdict(decided([draining], models)).code == "placement_gpus_taken"
    assert moves(decided([gone], models)) == [("start", "acme/m1", "node_1")]


def test_what_is_beyond_the_operators_maximum_is_taken_off_one_a_round():
    nodes = [serving(1, running(1, running=3)), serving(2, running(1), gpus=gpus(of=2))]

    found = decided(nodes, [model(1, maximum=1, short_since=None)])

    assert moves(found) == [("stop", "acme/m1", "node_2")]
    assert found.stops[0].code == "placement_beyond_maximum"


@pytest.mark.parametrize(("minutes", "goes"), [(9, False), (10, True)])
def test_what_cannot_be_served_where_it_was_placed_is_given_up(minutes: int, goes: bool):
    failing = running(1, observed="failed", code="weights_missing", since=NOW - timedelta(minutes=minutes))

    found = decided([serving(1, failing)], [model(1, short_since=None)])

    assert [move.code for move in found.stops] == (["placement_failed_here"] if goes else [])


def test_a_persons_failing_model_is_left_to_the_person():
    failing = running(1, observed="failed", is_persons=True)

    assert moves(decided([serving(1, failing)], [model(1)])) == []


def test_a_node_that_leaves_is_replaced():
    gone = node(1, state="offline", state_code="heartbeat_missed", deployments=(running(1),))

    found = decided([gone, node(2, gpus=gpus(of=2))], [model(1, demand=ASKED)])

    assert moves(found) == [("start", "acme/m1", "node_2")]


def test_a_node_that_was_lost_with_a_large_part_of_the_fleet_is_not():
    lost = node(1, state="offline", state_code="platform_silence", deployments=(running(1),))

    found = decided([lost, node(2, gpus=gpus(of=2))], [model(1, minimum=1, demand=ASKED)])

    assert moves(found) == []
    assert found.needs[1].ready == 1


@settings(max_examples=20, deadline=None)
@given(
    loads=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    minimums=st.lists(st.integers(0, 2), min_size=3, max_size=3),
    count=st.integers(1, 6),
)
def test_under_a_steady_load_placement_comes_to_rest_and_nothing_flaps(loads, minimums, count):
    nodes = [node(number, gpus=gpus(of=number)) for number in range(1, count + 1)]
    models = [model(number + 1, minimum=minimums[number], short_since=None) for number in range(3)]
    started: dict[tuple[int, int], datetime] = {}
    later_moves = 0

    for minute in range(0, 360, 3):
        now = NOW + timedelta(minutes=minute)
        found = decided(nodes, models, now=now)
        for stop in found.stops:
            assert now - started.pop((stop.node.id, stop.model.id)) >= Policy().stay
        started |= {(start.node.id, start.model.id): now for start in found.starts}
        later_moves += len(found.starts) + len(found.stops) if minute >= 240 else 0
        nodes, models = _after(nodes, models, found, loads, now)

    assert later_moves == 0


def _after(
    nodes: list[NodeFact], models: list[ModelFact], found: Round, loads: list[int], now: datetime
) -> tuple[list[NodeFact], list[ModelFact]]:
    """The fleet a minute later: what was asked for runs, what was stopped is gone, the load is spread as it was."""
    stopped = {(move.node.id, move.model.id) for move in found.stops}
    placed = {
        one.id: [
            row for row in one.deployments if (one.id, row.model_id) not in stopped
        ] + [
            running(start.model.id, since=now, public_id=f"dep_{one.id}_{start.model.id}")
            for start in found.starts if start.node.id == one.id
        ]
        for one in nodes
    }  # fmt: skip
    having = {number: sum(row.model_id == number for rows in placed.values() for row in rows) for number in (1, 2, 3)}
    after = [
        replace(
            one,
            state="serving" if placed[one.id] else "ready",
            deployments=tuple(
                replace(row, running=min(10, loads[row.model_id - 1] // having[row.model_id])) for row in placed[one.id]
            ),
        )
        for one in nodes
    ]
    lasting = [
        replace(
            one,
            demand=Demand(tokens_a_minute=loads[one.id - 1], refused=max(0, loads[one.id - 1] - 10 * having[one.id])),
            short_since=found.needs[one.id].short_since,
            idle_since=found.needs[one.id].idle_since,
        )
        for one in models
    ]
    return after, lasting
