"""A model that is short long enough gets a node: one that may take it, on as few and as small GPUs as do."""

from datetime import timedelta

import pytest

from portal.nodes.rules.placement_facts import Demand
from tests.unit.nodes.placing import ASKED, NOW, decided, gpus, model, moves, node, running, serving, shape, verdict


def test_a_model_that_is_asked_for_and_runs_nowhere_is_started():
    found = decided([node(1)], [model(1, demand=ASKED)])

    (start,) = found.starts
    assert (start.node.id, start.model.id, start.code) == (1, 1, "no_node_serves")
    assert start.fit.gpu_uuids == ("GPU-00010000",)
    assert start.fit.max_concurrency >= 1
    assert verdict(found).detail == "it is asked for and no node serves it"


def test_a_moments_shortage_moves_nothing():
    young = model(1, demand=ASKED, short_since=NOW - timedelta(seconds=119))

    found = decided([node(1)], [young])

    assert moves(found) == []
    assert verdict(found).code == "placement_waits"
    assert found.needs[1].short_since == young.short_since


def test_a_shortage_is_remembered_from_its_first_round_and_forgotten_when_it_ends():
    first = decided([node(1)], [model(1, demand=ASKED, short_since=None)])
    over = decided([node(1)], [model(1, demand=Demand())])

    assert first.needs[1].short_since == NOW
    assert over.needs[1].short_since is None


def test_the_smallest_gpus_that_do_are_taken():
    found = decided([node(1, gpus=gpus(1, 80)), node(2, gpus=gpus(1, 24, of=2))], [model(1, demand=ASKED)])

    assert moves(found) == [("start", "acme/m1", "node_2")]
    assert verdict(found, 1).code == "placement_elsewhere"


def test_a_larger_model_is_spread_over_equal_gpus_and_takes_no_more_than_it_needs():
    found = decided([node(1, gpus=(*gpus(1, 12), *gpus(4, 24, of=7)))], [model(1, demand=ASKED, shape=shape(64))])

    assert found.starts[0].fit.gpu_uuids == ("GPU-00070000", "GPU-00070001")


def test_nodes_of_a_provider_that_serves_it_already_come_last():
    nodes = [
        serving(1, running(1, running=10), provider_id=1),
        node(2, provider_id=1, gpus=gpus(of=2)),
        node(3, provider_id=3, gpus=gpus(of=3)),
    ]

    found = decided(nodes, [model(1)])

    assert moves(found) == [("start", "acme/m1", "node_3")]


@pytest.mark.parametrize(("busy", "is_short"), [(7, False), (8, True)])
def test_full_nodes_make_a_model_short_from_the_operators_share_on(busy, is_short):
    found = decided([serving(1, running(1, running=busy)), node(2, gpus=gpus(of=2))], [model(1)])

    assert (found.needs[1].code == "nodes_full") is is_short
    assert bool(found.starts) is is_short


def test_requests_that_wait_in_the_engine_count_as_load():
    found = decided([serving(1, running(1, running=4, waiting=4)), node(2, gpus=gpus(of=2))], [model(1)])

    assert found.needs[1].load_percent == 80


def test_refused_requests_make_a_model_short_whatever_the_load():
    found = decided([serving(1, running(1)), node(2, gpus=gpus(of=2))], [model(1, demand=Demand(0, 3))])

    assert (found.needs[1].code, moves(found)) == ("requests_refused", [("start", "acme/m1", "node_2")])


def test_while_a_node_is_coming_no_further_one_is_asked():
    coming = running(1, observed="starting", since=NOW - timedelta(minutes=5))

    found = decided([serving(1, coming), node(2, gpus=gpus(of=2))], [model(1, demand=Demand(0, 9))])

    assert moves(found) == []
    assert found.needs[1].coming == 1


def test_one_that_does_not_come_in_half_an_hour_is_not_waited_for():
    stuck = running(1, observed="starting", since=NOW - timedelta(minutes=30))

    found = decided([serving(1, stuck), node(2, gpus=gpus(of=2))], [model(1, demand=Demand(0, 9))])

    assert moves(found) == [("start", "acme/m1", "node_2")]


def test_the_operators_minimum_is_filled_at_once_and_its_maximum_not_passed():
    nodes = [node(number, gpus=gpus(of=number)) for number in (1, 2, 3)]

    assert len(decided(nodes, [model(1, minimum=2)]).starts) == 2
    full = decided([serving(1, running(1, running=10)), nodes[1]], [model(1, maximum=1)])
    assert moves(full) == []
    assert verdict(full, 2).code == "placement_at_maximum"


def test_what_lacks_its_minimum_comes_first_then_what_refuses_most():
    models = [model(1, demand=Demand(0, 5)), model(2, minimum=1), model(3, demand=Demand(0, 90))]
    nodes = [node(1), node(2, gpus=gpus(of=2))]

    found = decided(nodes, models)

    assert moves(found) == [("start", "acme/m2", "node_1"), ("start", "acme/m3", "node_2")]


def test_a_round_moves_no_more_than_the_operator_lets_it():
    nodes = [node(number, gpus=gpus(of=number)) for number in range(1, 6)]

    found = decided(nodes, [model(1, minimum=5)], moves_a_round=3)

    assert len(found.starts) == 3


def test_a_simulated_node_serves_models_without_a_config_too():
    found = decided([node(1, is_simulated=True)], [model(1, demand=ASKED, shape=None)])

    assert moves(found) == [("start", "acme/m1", "node_1")]
