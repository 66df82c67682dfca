"""What should run where."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.catalog.models import CatalogModel, ModelState
from portal.catalog.services import models as catalog_models
from portal.core.errors import Conflict
from portal.integrations import bus
from portal.nodes import locks
from portal.nodes.models import ChosenBy, Deployment, DesiredState, EngineKind, Gpu, Node, ObservedState
from portal.nodes.rules import deployments as rules
from portal.nodes.rules import hardware
from portal.nodes.services import sessions
from portal.providers.rules import states as provider_rules


class ModelNotActive(Conflict):
    """The catalogue does not offer the model."""

    code = "model_not_active"


class DeploymentExists(Conflict):
    """The model is already deployed on the node."""

    code = "deployment_exists"


def deploy(  # noqa: PLR0913  a deployment is these five facts, by whom, when and whose choice
    *,
    node: Node,
    model: CatalogModel,
    engine: EngineKind,
    settings: Mapping[str, object],
    max_concurrency: int,
    actor: Actor,
    now: datetime,
    chosen_by: ChosenBy = ChosenBy.PERSON,
) -> Deployment:
    """Ask the node to serve the model; a stopped deployment is started again with the new facts.

    Raises ModelNotActive, DeploymentExists, ExternalEngineRefused, SimulatedEngineRefused, InvalidValue, NodeRetired.
    """
    checked = rules.require_settings(settings)
    concurrency = rules.require_concurrency(max_concurrency)
    if model.state != ModelState.ACTIVE:
        raise ModelNotActive(f"{model.public_id} is {model.state}", param="model")
    with transaction.atomic():
        locked = locks.node_by_id(node.pk)
        require_active(locked.provider.organization)
        sessions.require_open(locked)
        _require_engine(locked, engine)
        row = Deployment.objects.filter(node=locked, model=model).first()
        if row is None:
            row = Deployment(node=locked, model=model, created_at=now)
        elif row.desired == DesiredState.RUNNING and not _takes_over(row, chosen_by):
            raise DeploymentExists(f"{model.public_id} is already deployed on {locked.name}", param="model")
        row.engine, row.settings, row.max_concurrency = engine, checked, concurrency
        row.desired, row.observed = DesiredState.RUNNING, ObservedState.PENDING
        row.desired_at, row.chosen_by = now, chosen_by
        row.observed_code, row.observed_detail, row.running, row.waiting = "", "", 0, 0
        row.save()
        _record(row, "deployment.started", actor=actor, now=now)
    return row


def stop(*, deployment: Deployment, actor: Actor, now: datetime, chosen_by: ChosenBy = ChosenBy.PERSON) -> Deployment:
    """Ask the node to end the deployment; nothing is routed to it from now on. Stopping twice is stopping once."""
    with transaction.atomic():
        locks.node_by_id(deployment.node_id)
        row = Deployment.objects.select_related("node__provider__organization", "model").get(pk=deployment.pk)
        if row.desired == DesiredState.RUNNING:
            row.desired, row.desired_at, row.chosen_by = DesiredState.STOPPED, now, chosen_by
            row.save(update_fields=["desired", "desired_at", "chosen_by"])
            _record(row, "deployment.stopped", actor=actor, now=now)
    return row


def retire_model(*, public_id: str, actor: Actor, now: datetime) -> CatalogModel:
    """Take the model off the list for good and stop it on every node. Raises ModelMoveRefused."""
    with transaction.atomic():
        model = catalog_models.retire_model(public_id=public_id, actor=actor, now=now)
        running = Deployment.objects.filter(model=model, desired=DesiredState.RUNNING).order_by("node_id")
        for row in running:
            stop(deployment=row, actor=actor, now=now)
    return model


def _takes_over(row: Deployment, chosen_by: ChosenBy) -> bool:
    """Tell whether a person makes automatic placement's choice a person's own."""
    return row.chosen_by == ChosenBy.AUTOMATIC and chosen_by == ChosenBy.PERSON


def _require_engine(node: Node, engine: EngineKind) -> None:
    rules.require_engine(
        engine=engine,
        is_simulated=node.is_simulated,
        may_use_external=provider_rules.may_use_external_engine(
            kind=node.provider.kind, has_right=node.provider.may_use_external_engine
        ),
    )
    if engine == EngineKind.VLLM:
        present = Gpu.objects.filter(node=node, is_present=True).order_by("index", "uuid")
        hardware.require_a_kind_that_serves(list(present.values_list("fault_code", flat=True)))


def _record(row: Deployment, event: str, *, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.public_id,
        now=now,
        organization=row.node.provider.organization.public_id,
        detail={"node": row.node.public_id, "model": row.model.public_id, "engine": row.engine},
    )
    bus.announce("nodes", row.node.public_id)
