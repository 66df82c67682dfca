"""Rounds of placement over a real fleet: preview changes nothing, people overrule, a silent fleet moves nobody."""

from datetime import timedelta

import pytest

from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue
from portal.nodes.models import (
    ChosenBy,
    Deployment,
    DesiredState,
    ModelPlacement,
    NodePlacement,
    NodeState,
    ObservedState,
    PlacementMode,
    PlacementPolicy,
    PlacementRound,
    PlacementSwitch,
)
from portal.nodes.rules.placement_facts import Demand
from portal.nodes.selectors import placement as selectors
from portal.nodes.services import deployments, placement
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, GpuFactory, NodeFactory
from tests.integration.nodes.agent import GPU

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


@pytest.fixture
def model(db):
    return CatalogModelFactory(plain=True, config=LLAMA, context_tokens=8192)


@pytest.fixture
def node(db, now):
    return automatic(now)


def automatic(now, **fields):
    """A ready node with one RTX 4090 on which the pool chooses."""
    given = {"state": NodeState.READY, "state_code": "no_deployment", "last_heartbeat_at": now, **fields}
    row = NodeFactory(**given)
    GpuFactory(node=row)
    NodePlacement.objects.create(node=row, mode=PlacementMode.AUTOMATIC)
    return row


def switched(switch: PlacementSwitch, **values) -> None:
    PlacementPolicy.objects.update_or_create(pk=1, defaults={"switch": switch, "short_for_s": 0, **values})


def a_round(model, now, **demand):
    return placement.run_round(demand={model.pk: Demand(**(demand or {"tokens_a_minute": 50}))}, now=now)


def test_a_preview_explains_and_changes_nothing(node, model, now):
    switched(PlacementSwitch.PREVIEW)

    found = a_round(model, now)

    assert [(move["action"], move["node"], move["refused"]) for move in found.moves] == [("start", node.public_id, "")]
    assert not Deployment.objects.exists()
    node.placement.refresh_from_db()
    assert node.placement.verdicts == [
        {"model": model.public_id, "action": "start", "code": "placement_starts",
         "detail": "it is asked for and no node serves it"}
    ]  # fmt: skip
    assert node.placement.looked_at == now


def test_a_round_that_is_switched_off_does_not_even_look(node, model, now):
    switched(PlacementSwitch.OFF)

    assert a_round(model, now) is None

    assert not ModelPlacement.objects.exists()


def test_switched_on_a_round_asks_the_node_for_the_model_on_its_gpu(node, model, now):
    switched(PlacementSwitch.ON)

    a_round(model, now)

    row = Deployment.objects.get()
    assert (row.node, row.model, row.engine, row.desired) == (node, model, "vllm", "running")
    assert (row.chosen_by, row.desired_at) == (ChosenBy.AUTOMATIC, now)
    assert row.settings == {"gpu_uuids": [node.gpus.get().uuid]}
    assert row.max_concurrency >= 1
    event = AuditEvent.objects.get(event="deployment.started")
    assert (event.actor, event.subject) == ("system", row.public_id)


def test_the_next_round_waits_for_what_is_coming(node, model, now):
    switched(PlacementSwitch.ON)
    automatic(now)
    a_round(model, now)

    assert a_round(model, now + timedelta(minutes=1)) is None
    assert Deployment.objects.count() == 1


def test_a_shortage_has_to_last_over_rounds(node, model, now):
    switched(PlacementSwitch.ON, short_for_s=120)

    assert a_round(model, now) is None
    assert ModelPlacement.objects.get().short_since == now
    assert a_round(model, now + timedelta(seconds=60)) is None
    assert a_round(model, now + timedelta(seconds=120)).moves != []


def test_what_a_person_stops_stays_stopped_until_the_pool_may_choose_anew(node, model, actor, now):
    switched(PlacementSwitch.ON)
    a_round(model, now)
    deployments.stop(deployment=Deployment.objects.get(), actor=actor, now=now)
    Deployment.objects.update(observed=ObservedState.STOPPED)

    assert a_round(model, now) is None
    assert [row.why.code for row in selectors.verdicts_of(node=node).rows] == ["placement_person_stopped"]

    placement.set_mode(node_id=node.public_id, mode=PlacementMode.CHOSEN, actor=actor, now=now)
    placement.set_mode(node_id=node.public_id, mode=PlacementMode.AUTOMATIC, actor=actor, now=now)
    a_round(model, now)
    assert Deployment.objects.get().desired == DesiredState.RUNNING


def test_a_person_makes_the_pools_choice_a_person_s_own(node, model, actor, now):
    switched(PlacementSwitch.ON)
    a_round(model, now)

    deployments.deploy(node=node, model=model, engine="vllm", settings={}, max_concurrency=3, actor=actor, now=now)

    assert Deployment.objects.get().chosen_by == ChosenBy.PERSON
    with pytest.raises(deployments.DeploymentExists):
        deployments.deploy(node=node, model=model, engine="vllm", settings={}, max_concurrency=4, actor=actor, now=now)


@pytest.mark.parametrize("decision", ["chooses again", "stops", "deploys"])
def test_a_decision_that_falls_between_looking_and_acting_wins(node, model, actor, now, decision):
    switched(PlacementSwitch.ON)
    ModelPlacement.objects.create(model=model, short_since=now - timedelta(hours=1))
    found = placement.look(demand={model.pk: Demand(50)}, now=now)
    assert len(found.starts) == 1
    if decision == "chooses again":
        placement.set_mode(node_id=node.public_id, mode=PlacementMode.CHOSEN, actor=actor, now=now)
    else:
        desired = DesiredState.RUNNING if decision == "deploys" else DesiredState.STOPPED
        DeploymentFactory(node=node, model=model, desired=desired, chosen_by=ChosenBy.PERSON)
    before = list(Deployment.objects.values())

    (move,) = placement.carry_out(found, policy=selectors.policy(), now=now)

    assert move["refused"] == "placement_overruled"
    assert list(Deployment.objects.values()) == before


def test_a_model_makes_room_only_once_its_engine_is_gone(node, model, now):
    switched(PlacementSwitch.ON, stay_s=0, idle_for_s=0)
    other = DeploymentFactory(
        node=node, model__plain=True, model__config=LLAMA, model__context_tokens=8192, desired_at=now,
        settings={"gpu_uuids": [node.gpus.get().uuid]}, chosen_by=ChosenBy.AUTOMATIC,
    )  # fmt: skip
    node.state = NodeState.SERVING
    node.save()

    first = a_round(model, now)
    other.refresh_from_db()
    assert [(move["action"], move["detail"]) for move in first.moves] == [("stop", model.public_id)]
    assert (other.desired, other.chosen_by) == (DesiredState.STOPPED, ChosenBy.AUTOMATIC)

    Deployment.objects.update(observed=ObservedState.DRAINING, running=2)
    assert a_round(model, now + timedelta(minutes=1)) is None

    Deployment.objects.update(observed=ObservedState.STOPPED, running=0)
    a_round(model, now + timedelta(minutes=2))
    assert Deployment.objects.get(model=model).desired == DesiredState.RUNNING


def test_what_fails_where_it_was_placed_is_given_up_and_not_tried_there_again(node, model, now):
    switched(PlacementSwitch.ON)
    a_round(model, now)
    Deployment.objects.update(observed=ObservedState.FAILED, observed_code="weights_missing")

    later = now + timedelta(minutes=10)
    a_round(model, later)
    Deployment.objects.update(observed=ObservedState.STOPPED, observed_code="")
    assert a_round(model, later + timedelta(minutes=1)) is None

    (verdict,) = selectors.verdicts_of(node=node).rows
    assert (verdict.why.code, verdict.why.detail[:15]) == ("placement_failed_here", "weights_missing")


def test_a_silent_fleet_moves_nobody_and_is_told_once(model, now):
    switched(PlacementSwitch.ON)
    spare = automatic(now)
    for _ in range(4):
        DeploymentFactory(node=NodeFactory(last_heartbeat_at=now - timedelta(seconds=31)), model=model)

    assert a_round(model, now, refused=100).code == "placement_held"
    assert a_round(model, now + timedelta(seconds=10), refused=100) is None

    assert not spare.deployments.exists()
    assert PlacementRound.objects.count() == 1


def test_another_silence_is_told_though_nothing_moved_since_the_last(model, now):
    switched(PlacementSwitch.ON)
    PlacementRound.objects.create(at=now - timedelta(days=2), switch="on", code="placement_held")
    for _ in range(4):
        DeploymentFactory(node=NodeFactory(last_heartbeat_at=now - timedelta(seconds=31)), model=model)

    assert a_round(model, now, refused=100).code == "placement_held"

    assert PlacementRound.objects.count() == 2


def test_nodes_that_a_silent_fleet_took_offline_are_waited_for(model, now):
    switched(PlacementSwitch.ON)
    automatic(now)
    away = now - timedelta(minutes=12)
    for _ in range(4):
        lost = NodeFactory(state=NodeState.OFFLINE, state_code="platform_silence", last_heartbeat_at=away)
        DeploymentFactory(node=lost, model=model)

    assert a_round(model, now, refused=100).code == "placement_held"


def test_a_node_that_leaves_alone_is_replaced(node, model, now):
    switched(PlacementSwitch.ON)
    gone = NodeFactory(
        state=NodeState.OFFLINE, state_code="heartbeat_missed", last_heartbeat_at=now - timedelta(hours=1)
    )
    DeploymentFactory(node=gone, model=model)

    a_round(model, now)

    assert Deployment.objects.get(node=node).desired == DesiredState.RUNNING


def test_a_gpu_with_a_fault_takes_no_model(node, model, now):
    switched(PlacementSwitch.ON)
    node.gpus.update(fault_code="remap_failed")

    assert a_round(model, now) is None
    assert [row.why.code for row in selectors.verdicts_of(node=node).rows] == ["placement_no_gpu"]


def test_what_is_only_noticed_of_a_gpu_keeps_no_model_from_it(node, model, now):
    switched(PlacementSwitch.ON)
    node.load = {"gpu_errors": [{"code": "gpu_throttled", "detail": node.gpus.get().uuid}]}
    node.save()

    a_round(model, now)

    assert Deployment.objects.get(node=node).desired == DesiredState.RUNNING


def test_the_agent_is_told_which_gpus_the_model_takes(agent, model, actor, now):
    switched(PlacementSwitch.ON)
    agent.open(now)
    agent.beat(now)
    placement.set_mode(node_id=agent.node.public_id, mode=PlacementMode.AUTOMATIC, actor=actor, now=now)

    a_round(model, now)

    (wanted,) = agent.beat(now).desired
    assert wanted.settings["gpu_uuids"] == [GPU.uuid]


@pytest.mark.parametrize("maximum", [0, 1001])
def test_a_target_that_makes_no_sense_is_refused(model, actor, now, maximum):
    with pytest.raises(InvalidValue):
        placement.set_target(model=model, minimum=1, maximum=maximum, actor=actor, now=now)

    assert not ModelPlacement.objects.exists()
