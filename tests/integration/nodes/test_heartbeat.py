"""Heartbeats: claims are stored as claims, and the node is moved to where it stands."""

from dataclasses import replace
from datetime import timedelta

import pytest

from portal.nodes.models import Deployment, DesiredState, EngineKind, Gpu, Node, NodeEvent, NodeState
from portal.nodes.rules.beats import GpuError, OwnerClaim, UpdateClaim
from portal.nodes.services import deployments, lifecycle, sessions
from portal.providers.models import ProviderKind, ProviderState
from portal.providers.services import review
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory
from tests.factories.providers import AgreementAcceptanceFactory, AgreementFactory
from tests.integration.nodes.agent import GPU, ready


@pytest.fixture
def model(db):
    return CatalogModelFactory(plain=True)


@pytest.fixture
def deployment(agent, model, actor, now):
    return deployments.deploy(
        node=agent.node,
        model=model,
        engine=EngineKind.VLLM,
        settings={},
        max_concurrency=4,
        actor=actor,
        now=now,
    )


def test_the_path_from_joining_to_serving(agent, deployment, now):
    agent.open(now)
    states = [agent.beat(now).state]
    states += [agent.beat(now, deployments=(ready(deployment, state="starting"),)).state]
    states += [agent.beat(now, deployments=(ready(deployment),)).state]

    assert states == ["ready", "ready", "serving"]
    moves = NodeEvent.objects.order_by("id").values_list("from_state", "to_state", "code")
    assert list(moves) == [
        ("", "enrolled", "enrolled"),
        ("enrolled", "checking", "session_opened"),
        ("checking", "ready", "deployment_pending"),
        ("ready", "serving", "serving"),
    ]
    agent.node.refresh_from_db()
    assert (agent.node.state, agent.node.state_code, agent.node.last_heartbeat_at) == ("serving", "serving", now)


def test_the_answer_says_what_should_run(agent, deployment, model, now):
    agent.open(now)

    answer = agent.beat(now)

    assert [(row.public_id, row.model.public_id, row.desired) for row in answer.desired] == [
        (deployment.public_id, model.public_id, "running")
    ]
    assert [notice.code for notice in answer.notices] == ["deployment_pending"]
    assert all(notice.fix for notice in answer.notices)


def test_gpus_are_kept_by_uuid_and_a_missing_one_stays_as_missing(agent, now):
    agent.open(now)
    second = replace(GPU, uuid="GPU-5b6d6a7e-0000-0000-0000-000000000002", index=1, memory_bytes=None, values={"a": 1})
    agent.gpus = (GPU, second)
    agent.beat(now)

    agent.gpus = (replace(second, index=0, driver="580.1"),)
    agent.beat(now + timedelta(seconds=15))

    rows = {gpu.uuid[-1]: gpu for gpu in Gpu.objects.all()}
    assert (rows["1"].is_present, rows["1"].last_seen_at) == (False, now)
    assert (rows["2"].is_present, rows["2"].index, rows["2"].driver) == (True, 0, "580.1")
    assert (rows["2"].first_seen_at, rows["2"].last_seen_at) == (now, now + timedelta(seconds=15))
    assert rows["2"].memory_bytes is None


@pytest.mark.parametrize("hours", [-30, -3, 3, 24 * 365])
def test_a_clock_off_by_hours_is_served_all_the_same_and_told(agent, deployment, now, hours):
    agent.open(now)

    answer = agent.beat(now, offset=timedelta(hours=hours), deployments=(ready(deployment),))

    assert answer.state == "serving"
    skew = next(notice for notice in answer.notices if notice.code == "clock_skew")
    assert ("ahead of" if hours > 0 else "behind") in skew.text
    assert str(abs(hours) * 3600) in skew.text
    agent.node.refresh_from_db()
    assert (agent.node.clock_offset_ms, agent.node.last_heartbeat_at) == (hours * 3_600_000, now)


def test_a_clock_off_by_seconds_is_not_mentioned(agent, now):
    agent.open(now)

    answer = agent.beat(now, offset=timedelta(seconds=29))

    assert "clock_skew" not in [notice.code for notice in answer.notices]


def test_a_machine_without_gpus_is_not_ready(agent, deployment, now):
    agent.open(now)
    agent.gpus = ()

    answer = agent.beat(now, deployments=(ready(deployment),))

    assert answer.state == "checking"


def test_a_broken_driver_is_named_to_the_owner(agent, now):
    agent.open(now)
    agent.gpus = ()

    answer = agent.beat(now, gpu_errors=(GpuError("nvml_driver_not_loaded", "error 9"),))

    assert answer.state == "degraded"
    assert answer.notices[0].code == "nvml_driver_not_loaded"
    assert "modprobe" in answer.notices[0].fix
    agent.node.refresh_from_db()
    assert agent.node.load["gpu_errors"] == [{"code": "nvml_driver_not_loaded", "detail": "error 9"}]


def test_what_a_machine_cannot_have_is_kept_as_no_reading(agent, now):
    agent.open(now)

    agent.beat(
        now,
        host={"memory_bytes": 540 << 30, "cpu_count": -3, "shell": "bash"},
        host_missing={"network_speed_mbits": "not_reported", "kernel": "Ask me!", "shell": "not_reported"},
    )

    agent.node.refresh_from_db()
    assert agent.node.load["host"] == {"memory_bytes": 540 << 30}
    assert agent.node.load["host_missing"] == {"cpu_count": "implausible", "network_speed_mbits": "not_reported"}


def test_a_machine_that_moved_is_known_by_its_newest_address(agent, now):
    agent.open(now)
    agent.address = "198.51.100.23"

    agent.beat(now)

    agent.node.refresh_from_db()
    assert agent.node.last_address == "198.51.100.23"


def test_why_and_until_when_the_owner_keeps_the_machine_is_kept(agent, deployment, now):
    agent.open(now)
    until = now + timedelta(hours=8)

    agent.beat(now, wish="drain", owner=OwnerClaim("owner_quiet_hours", until), deployments=(ready(deployment),))
    agent.node.refresh_from_db()
    resting = (agent.node.state, agent.node.state_code, agent.node.load["owner"])
    agent.beat(now + timedelta(seconds=15), deployments=(ready(deployment),))
    agent.node.refresh_from_db()

    assert resting == (
        "maintenance",
        "owner_quiet_hours",
        {"code": "owner_quiet_hours", "until": until.isoformat()},
    )
    assert (agent.node.state, agent.node.load["owner"]) == ("serving", None)


def test_nothing_serves_before_the_operator_approved(agent, deployment, provider, actor, now):
    provider.state = ProviderState.SUBMITTED
    provider.save()
    agent.open(now)

    assert agent.beat(now, deployments=(ready(deployment),)).state == "ready"

    review.approve_provider(provider_id=provider.public_id, actor=actor, now=now)
    assert agent.beat(now, deployments=(ready(deployment),)).state == "serving"


def test_nothing_serves_without_the_agreement_in_force(agent, deployment, provider, now):
    agreement = AgreementFactory(effective_from=now)
    agent.open(now)

    answer = agent.beat(now, deployments=(ready(deployment),))
    assert (answer.state, answer.notices[0].code) == ("ready", "agreement_missing")

    AgreementAcceptanceFactory(provider=provider, agreement=agreement)
    assert agent.beat(now, deployments=(ready(deployment),)).state == "serving"


def test_an_agreement_of_tomorrow_is_not_owed_today(agent, deployment, now):
    AgreementFactory(effective_from=now + timedelta(days=1))
    agent.open(now)

    assert agent.beat(now, deployments=(ready(deployment),)).state == "serving"


def test_the_class_follows_the_provider(agent, provider, actor, now):
    agent.open(now)
    assert agent.node.node_class == "community"

    review.set_identity(provider_id=provider.public_id, is_identified=False, actor=actor, now=now)
    agent.beat(now)
    agent.node.refresh_from_db()
    assert agent.node.node_class == "unidentified"

    review.set_kind(provider_id=provider.public_id, kind=ProviderKind.HOUSE, actor=actor, now=now)
    agent.beat(now)
    agent.node.refresh_from_db()
    assert agent.node.node_class == "house"


def test_another_nodes_deployment_cannot_be_spoken_for(agent, now):
    foreign = DeploymentFactory(observed="pending", model__plain=True)
    agent.open(now)

    answer = agent.beat(now, deployments=(ready(foreign),))

    foreign.refresh_from_db()
    assert (foreign.observed, answer.state, answer.desired) == ("pending", "ready", ())


def test_a_node_that_stops_speaking_of_a_model_does_not_serve_it(agent, deployment, now):
    agent.open(now)
    agent.beat(now, deployments=(ready(deployment, running=3),))

    assert agent.beat(now).state == "ready"

    deployment.refresh_from_db()
    assert (deployment.observed, deployment.running) == ("pending", 0)


def test_a_stopped_model_is_asked_for_until_it_is_gone(agent, deployment, actor, now):
    agent.open(now)
    agent.beat(now, deployments=(ready(deployment),))
    deployments.stop(deployment=deployment, actor=actor, now=now)

    still = agent.beat(now, deployments=(ready(deployment, running=1, state="draining"),))
    assert [row.desired for row in still.desired] == ["stopped"]
    assert still.state == "ready"

    gone = agent.beat(now, deployments=(ready(deployment, state="stopped"),))
    assert gone.desired == ()


def test_draining_waits_for_what_runs(agent, deployment, actor, now):
    agent.open(now)
    agent.beat(now, deployments=(ready(deployment, running=2),))

    lifecycle.drain(node_id=agent.node.public_id, actor=actor, now=now)
    assert agent.beat(now, deployments=(ready(deployment, running=1),)).state == "draining"
    assert agent.beat(now, deployments=(ready(deployment),)).state == "maintenance"

    lifecycle.resume(node_id=agent.node.public_id, actor=actor, now=now)
    assert agent.beat(now, deployments=(ready(deployment),)).state == "serving"


def test_the_agents_own_wish_to_drain_counts(agent, deployment, now):
    agent.open(now)

    assert agent.beat(now, wish="drain", deployments=(ready(deployment, running=1),)).state == "draining"
    assert agent.beat(now, wish="serve", deployments=(ready(deployment),)).state == "serving"


def test_leaving_retires_the_node_once_nothing_runs(agent, deployment, now):
    agent.open(now)

    going = agent.beat(now, wish="leave", deployments=(ready(deployment, running=1),))
    gone = agent.beat(now, wish="leave", deployments=(ready(deployment),))

    assert (going.state, gone.state) == ("draining", "retired")
    assert going.check_round is not None
    assert gone.check_round is None
    deployment.refresh_from_db()
    assert deployment.desired == DesiredState.STOPPED
    with pytest.raises(sessions.NodeRetired):
        agent.beat(now)


def test_an_old_session_is_refused_and_changes_nothing(agent, now):
    agent.open(now)
    twin = agent.twin("i-2")
    twin.open(now)

    with pytest.raises(sessions.SessionSuperseded):
        agent.beat(now + timedelta(seconds=5))

    agent.node.refresh_from_db()
    assert agent.node.last_heartbeat_at == now
    assert not Gpu.objects.exists()


def test_a_simulated_node_needs_no_gpu(agent, model, actor, now):
    agent.node.is_simulated = True
    agent.node.save()
    row = deployments.deploy(
        node=agent.node, model=model, engine=EngineKind.SIMULATE, settings={}, max_concurrency=1, actor=actor, now=now
    )
    agent.open(now)
    agent.gpus = ()

    assert agent.beat(now, deployments=(ready(row),)).state == "serving"


def test_a_house_node_with_an_external_engine_needs_no_gpu(agent, provider, model, actor, now):
    review.set_kind(provider_id=provider.public_id, kind=ProviderKind.HOUSE, actor=actor, now=now)
    row = deployments.deploy(
        node=agent.node, model=model, engine=EngineKind.EXTERNAL, settings={}, max_concurrency=1, actor=actor, now=now
    )
    agent.open(now)
    agent.gpus = ()

    assert agent.beat(now, deployments=(ready(row),)).state == "serving"


def test_a_heartbeat_costs_few_queries(agent, deployment, now, django_assert_max_num_queries):
    agent.open(now)
    said = {"deployments": (ready(deployment),), "updates": UpdateClaim("manual")}  # agents always speak of updates
    agent.beat(now, **said)
    Node.objects.update(has_check_matters=False)  # its round of checks at joining is over

    with django_assert_max_num_queries(7):
        agent.beat(now + timedelta(seconds=15), **said)


def test_an_offline_node_comes_back(agent, deployment, now):
    agent.open(now)
    agent.beat(now, deployments=(ready(deployment),))
    agent.node.refresh_from_db()
    agent.node.state = NodeState.OFFLINE
    agent.node.save()

    assert agent.beat(now + timedelta(minutes=2), deployments=(ready(deployment),)).state == "serving"
    assert Deployment.objects.get().observed == "ready"


def test_a_claim_that_repeats_the_last_is_written_down_once_a_minute(agent, deployment, now):
    agent.open(now)
    claim = ready(deployment)
    seen = []
    for second in (0, 15, 59, 60, 75):
        agent.beat(now + timedelta(seconds=second), deployments=(claim,))
        deployment.refresh_from_db()
        seen.append((deployment.observed_at - now).seconds)

    agent.beat(now + timedelta(seconds=80), deployments=(replace(claim, running=1),))
    deployment.refresh_from_db()

    assert seen == [0, 0, 0, 60, 60]
    assert (deployment.running, deployment.observed_at) == (1, now + timedelta(seconds=80))
