"""Every pair of a node and a model that is not placed says why, with a code of the failure catalogue."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from poolhouse_common import failures

from portal.nodes.rules.placement import REASONS, Table, decide
from portal.nodes.rules.placement_facts import Demand, Failure, ModelFact, NodeFact, Policy
from tests.unit.nodes.placing import ASKED, NOW, decided, gpus, model, moves, node, running, serving, shape, verdict

STOPPED = {"is_wanted": False, "observed": "stopped"}
CASES: dict[str, tuple[NodeFact, ModelFact, str]] = {
    "the provider rests": (
        node(1, state="maintenance", state_code="owner_quiet_hours"), model(1, demand=ASKED), "owner_quiet_hours"),
    "it is offline": (
        node(1, state="offline", state_code="heartbeat_missed"), model(1, demand=ASKED), "heartbeat_missed"),
    "it has a fault": (node(1, state="degraded", state_code="gpu_is_lost"), model(1, demand=ASKED), "gpu_is_lost"),
    "the provider is not approved": (
        node(1, state_code="provider_not_approved"), model(1, demand=ASKED), "provider_not_approved"),
    "a person runs it": (serving(1, running(1, is_persons=True)), model(1), "placement_person_runs"),
    "it runs": (serving(1, running(1)), model(1), "placement_keeps"),
    "a person stopped it": (
        node(1, deployments=(running(1, is_persons=True, **STOPPED),)), model(1, demand=ASKED),
        "placement_person_stopped"),
    "it still drains": (
        node(1, deployments=(running(1, is_wanted=False, observed="draining"),)), model(1, demand=ASKED),
        "placement_draining"),
    "it failed here": (
        node(1, failures={1: Failure("weights_missing", NOW - timedelta(hours=1))}), model(1, demand=ASKED),
        "placement_failed_here"),
    "no config": (node(1), model(1, demand=ASKED, shape=None), "placement_no_config"),
    "no GPU": (node(1, gpus=()), model(1, demand=ASKED), "placement_no_gpu"),
    "too large": (node(1, gpus=gpus(1, 12)), model(1, demand=ASKED), "placement_does_not_fit"),
    "its GPU is taken": (serving(1, running(2)), model(1, demand=ASKED), "placement_gpus_taken"),
    "enough nodes": (node(1), model(1), "placement_no_need"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_reason_is_named(name: str):
    where, what, code = CASES[name]

    found = decided([where], [what, model(2)])

    assert moves(found) == []
    assert verdict(found).code == code
    assert failures.find(code) is not None


def test_what_does_not_fit_says_what_is_missing():
    found = decided([node(1, gpus=gpus(1, 12))], [model(1, demand=ASKED)])

    assert verdict(found).detail.startswith("1 x Card 12: ")
    assert "GiB" in verdict(found).detail


def test_a_failure_is_forgotten_after_six_hours():
    old = node(1, failures={1: Failure("weights_missing", NOW - timedelta(hours=6))})

    assert moves(decided([old], [model(1, demand=ASKED)])) == [("start", "acme/m1", "node_1")]


def test_where_the_provider_chooses_one_verdict_says_so():
    found = decided([node(1, is_automatic=False)], [model(1, demand=ASKED), model(2)])

    assert [(one.model, one.code) for one in found.verdicts[1]] == [("", "placement_provider_chooses")]
    assert moves(found) == []


def test_each_node_has_a_verdict_on_each_model_and_the_short_ones_come_first():
    nodes = [node(number, gpus=gpus(of=number)) for number in (1, 2)]
    models = [model(1), model(2), model(3, demand=Demand(0, 4), shape=shape(400))]

    found = decided(nodes, models)

    assert [one.model for one in found.verdicts[1]] == ["acme/m3", "acme/m1", "acme/m2"]
    assert {node_id: len(told) for node_id, told in found.verdicts.items()} == {1: 3, 2: 3}


def test_every_reason_of_a_need_has_words():
    wanted: dict[str, Any] = {
        "below_minimum": model(1, minimum=1),
        "no_node_serves": model(1, demand=ASKED),
        "requests_refused": model(1, demand=Demand(0, 1)),
    }

    codes = {name: decided([serving(1, *([running(1)] if name == "requests_refused" else []))], [one]).needs[1].code
             for name, one in wanted.items()}  # fmt: skip

    assert codes == {name: name for name in wanted}
    assert set(codes) < set(REASONS)


def test_a_brief_look_explains_the_short_models_alone_and_decides_the_same():
    nodes = [node(number, gpus=gpus(of=number)) for number in (1, 2)]
    table = Table(nodes=nodes, models=[model(1, demand=ASKED), model(2)], policy=Policy(), now=NOW)

    brief, whole = decide(replace(table, is_brief=True)), decide(table)

    assert moves(brief) == moves(whole)
    assert [one.model for one in brief.verdicts[2]] == ["acme/m1"]
    assert [one.model for one in whole.verdicts[2]] == ["acme/m1", "acme/m2"]
