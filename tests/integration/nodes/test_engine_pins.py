"""The operator pins a version of the engine: nodes are told, and what is below the floor gets no work."""

from dataclasses import replace

import pytest

from portal.api.agent import reading
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue
from portal.nodes.models import EngineKind, EnginePin, ObservedState
from portal.nodes.selectors import engines as selectors
from portal.nodes.services import deployments, engines
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory
from tests.integration.nodes.agent import ready


@pytest.fixture
def deployment(agent, actor, now):
    agent.open(now)
    return deployments.deploy(
        node=agent.node,
        model=CatalogModelFactory(plain=True),
        engine=EngineKind.VLLM,
        settings={},
        max_concurrency=4,
        actor=actor,
        now=now,
    )


@pytest.fixture
def pin(db, actor, now):
    def say(version: str, floor: str = "0.22") -> EnginePin:
        return engines.pin(engine=EngineKind.VLLM, version=version, floor=floor, actor=actor, now=now)

    return say


def beat(agent, deployment, now, **facts):
    """One heartbeat that says this of the engine; return the answer's message."""
    claim = replace(ready(deployment), facts=facts)
    answer = agent.beat(now, deployments=(claim,))
    deployment.refresh_from_db()
    return reading.heartbeat_answer(answer, heartbeat_s=15, now=now)


def test_a_node_is_told_the_pinned_version(agent, deployment, pin, now):
    before = beat(agent, deployment, now)["desired"][0]["engine_version"]
    pin("0.33.0")

    after = beat(agent, deployment, now)["desired"][0]["engine_version"]

    assert (before, after) == ("", "0.33.0")


def test_a_pin_is_for_one_kind_of_engine(agent, deployment, pin, now):
    deployment.engine = EngineKind.EXTERNAL
    deployment.save(update_fields=["engine"])
    pin("0.33.0")

    assert beat(agent, deployment, now)["desired"][0]["engine_version"] == ""


def test_what_an_engine_tells_is_kept_and_nothing_else(agent, deployment, now):
    beat(agent, deployment, now, engine_version="0.32.0", kv_cache_tokens=262144, gpu_uuids=["GPU-1"], prompt="hello")

    assert deployment.observed == ObservedState.READY
    assert deployment.facts == {"engine_version": "0.32.0", "kv_cache_tokens": 262144, "gpu_uuids": ["GPU-1"]}


@pytest.mark.parametrize("version", ["0.21.9", "0.9.1", "nonsense"])
def test_an_engine_below_the_floor_gets_no_work(agent, deployment, now, version):
    beat(agent, deployment, now, engine_version=version)

    assert (deployment.observed, deployment.observed_code) == (ObservedState.FAILED, "engine_version_unsupported")
    assert version in deployment.observed_detail


def test_a_raised_floor_takes_effect_with_the_next_heartbeat(agent, deployment, pin, now):
    beat(agent, deployment, now, engine_version="0.32.0")
    before = deployment.observed
    pin("", floor="0.33")

    beat(agent, deployment, now, engine_version="0.32.0")

    assert (before, deployment.observed) == (ObservedState.READY, ObservedState.FAILED)
    assert "0.33" in deployment.observed_detail


@pytest.mark.parametrize(("version", "floor"), [("0.32.0", "0.21"), ("0.30.0", "0.31"), ("latest", "0.22"), ("", "x")])
def test_a_pin_that_cannot_be_meant_is_refused(pin, version, floor):
    with pytest.raises(InvalidValue):
        pin(version, floor)

    assert not EnginePin.objects.exists()


def test_a_pin_is_audited(pin):
    pin("0.32.0")
    pin("0.33.0", "0.30")

    event = AuditEvent.objects.filter(event="engine.pinned").latest("id")
    assert event.detail["before"] == {"version": "0.32.0", "floor": "0.22"}
    assert event.detail["after"] == {"version": "0.33.0", "floor": "0.30"}


def test_the_fleets_versions_are_counted(agent, deployment, now):
    beat(agent, deployment, now, engine_version="0.32.0")
    DeploymentFactory(engine=EngineKind.VLLM, facts={"engine_version": "0.21.0"})
    DeploymentFactory(engine=EngineKind.VLLM, facts={"engine_version": "0.32.0"})

    found = selectors.running_versions()

    assert [(one.version, one.count, one.is_below_floor) for one in found] == [
        ("0.32.0", 2, False),
        ("0.21.0", 1, True),
    ]
