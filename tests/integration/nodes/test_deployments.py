"""What should run where."""

import pytest

from portal.audit.models import AuditEvent
from portal.catalog.models import ModelState
from portal.core.errors import InvalidValue
from portal.nodes.models import Deployment, DesiredState, EngineKind, NodeState, ObservedState
from portal.nodes.rules.deployments import ExternalEngineRefused, SimulatedEngineRefused
from portal.nodes.services import deployments, sessions
from portal.providers.models import ProviderKind
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, NodeFactory


@pytest.fixture
def node(db):
    return NodeFactory()


@pytest.fixture
def model(db):
    return CatalogModelFactory(plain=True)


def deploy(node, model, actor, now, **changes) -> Deployment:
    facts = {"engine": EngineKind.VLLM, "settings": {}, "max_concurrency": 4, **changes}
    return deployments.deploy(node=node, model=model, actor=actor, now=now, **facts)


def test_a_deployment_is_asked_for(node, model, actor, now):
    row = deploy(node, model, actor, now, settings={"tensor_parallel_size": 2})

    assert (row.node, row.model, row.engine, row.desired, row.observed) == (node, model, "vllm", "running", "pending")
    assert (row.settings, row.max_concurrency) == ({"tensor_parallel_size": 2}, 4)
    event = AuditEvent.objects.get(event="deployment.started")
    assert (event.subject, event.detail["model"]) == (row.public_id, model.public_id)


@pytest.mark.parametrize("state", [ModelState.DRAFT, ModelState.DEPRECATED, ModelState.RETIRED])
def test_only_offered_models_can_be_deployed(node, actor, now, state):
    model = CatalogModelFactory(plain=True, state=state)

    with pytest.raises(deployments.ModelNotActive):
        deploy(node, model, actor, now)

    assert not Deployment.objects.exists()


def test_a_running_model_is_not_deployed_twice(node, model, actor, now):
    row = deploy(node, model, actor, now)

    with pytest.raises(deployments.DeploymentExists):
        deploy(node, model, actor, now, max_concurrency=9)

    row.refresh_from_db()
    assert row.max_concurrency == 4


def test_a_stopped_model_is_deployed_again_with_the_new_facts(node, model, actor, now):
    first = deploy(node, model, actor, now)
    deployments.stop(deployment=first, actor=actor, now=now)

    again = deploy(node, model, actor, now, max_concurrency=9)

    assert (again.pk, again.desired, again.observed, again.max_concurrency) == (
        first.pk,
        DesiredState.RUNNING,
        ObservedState.PENDING,
        9,
    )


def test_stopping_twice_is_stopping_once(node, model, actor, now):
    row = deploy(node, model, actor, now)

    deployments.stop(deployment=row, actor=actor, now=now)
    deployments.stop(deployment=row, actor=actor, now=now)

    assert AuditEvent.objects.filter(event="deployment.stopped").count() == 1


def test_external_engines_are_a_right(node, model, actor, now):
    with pytest.raises(ExternalEngineRefused):
        deploy(node, model, actor, now, engine=EngineKind.EXTERNAL)

    node.provider.may_use_external_engine = True
    node.provider.save()
    assert deploy(node, model, actor, now, engine=EngineKind.EXTERNAL).engine == "external"


def test_house_nodes_may_use_external_engines(model, actor, now, db):
    node = NodeFactory(provider__kind=ProviderKind.HOUSE)

    assert deploy(node, model, actor, now, engine=EngineKind.EXTERNAL).engine == "external"


def test_a_real_node_cannot_simulate(node, model, actor, now):
    with pytest.raises(SimulatedEngineRefused):
        deploy(node, model, actor, now, engine=EngineKind.SIMULATE)


def test_unknown_settings_are_refused(node, model, actor, now):
    with pytest.raises(InvalidValue):
        deploy(node, model, actor, now, settings={"extra_args": ["--trust-remote-code"]})


def test_nothing_is_deployed_on_a_retired_node(model, actor, now, db):
    node = NodeFactory(state=NodeState.RETIRED)

    with pytest.raises(sessions.NodeRetired):
        deploy(node, model, actor, now)


def test_retiring_a_model_stops_it_everywhere(model, actor, now, db):
    rows = [DeploymentFactory(model=model), DeploymentFactory(model=model)]
    other = DeploymentFactory(model__plain=True)

    deployments.retire_model(public_id=model.public_id, actor=actor, now=now)

    for row in rows:
        row.refresh_from_db()
        assert row.desired == DesiredState.STOPPED
    other.refresh_from_db()
    assert other.desired == DesiredState.RUNNING
