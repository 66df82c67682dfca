"""Create, change and archive projects. The gateway hears of what changes for their keys."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import ApiKey, Organization, Project, User
from portal.accounts.rules import terms
from portal.accounts.rules.terms import NO_BUDGET, NO_LIMITS, Budget, LimitTerms
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue
from portal.integrations import bus

_MAX_OPEN = 200


class ProjectHasKeys(Conflict):
    """The project cannot be archived while live keys belong to it."""

    code = "project_has_keys"


class TooManyProjects(Conflict):
    """The organization has as many open projects as it may have."""

    code = "too_many_projects"


@dataclass(frozen=True, slots=True)
class ProjectTerms:
    """What people choose about a project."""

    name: str
    limits: LimitTerms = NO_LIMITS
    budget: Budget = NO_BUDGET


def create_project(
    *, organization: Organization, wanted: ProjectTerms, created_by: User | None, actor: Actor, now: datetime
) -> Project:
    """Create a project. Raises InvalidValue (naming the field), TooManyProjects, OrganizationSuspended."""
    _require(wanted)
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        if Project.objects.filter(organization=row, archived_at=None).count() >= _MAX_OPEN:
            raise TooManyProjects(f"There are {_MAX_OPEN} open projects already.", fix="Archive those that ended.")
        project = Project(organization=row, created_by=created_by, created_at=now)
        _apply(project, wanted)
        project.save()
        _record(project, "project.created", actor=actor, detail=asdict(wanted), now=now)
    return project


def change_project(
    *, organization: Organization, public_id: str, wanted: ProjectTerms, actor: Actor, now: datetime
) -> Project:
    """Give an open project other terms. Raises NotFound, InvalidValue, ProjectArchived, OrganizationSuspended."""
    _require(wanted)
    with transaction.atomic():
        require_active(locks.organization(organization_id=organization.pk))
        project = locks.open_project(organization=organization, public_id=public_id)
        before = terms_of(project)
        if wanted == before:
            return project
        _apply(project, wanted)
        project.save()
        detail: dict[str, object] = {"from": asdict(before), "to": asdict(wanted)}
        _record(project, "project.changed", actor=actor, detail=detail, now=now)
    return project


def archive_project(*, organization: Organization, public_id: str, actor: Actor, now: datetime) -> Project:
    """Archive a project without live keys, for good. Raises NotFound, ProjectHasKeys, ProjectArchived."""
    with transaction.atomic():
        locks.organization(organization_id=organization.pk)
        project = locks.open_project(organization=organization, public_id=public_id)
        live = ApiKey.objects.filter(project=project, revoked_at=None).count()
        if live:
            raise ProjectHasKeys(
                f"{project.name} has {live} live key{'s' if live > 1 else ''}.",
                fix="Revoke them or move them to another project.",
            )
        project.archived_at = now
        project.save(update_fields=["archived_at"])
        _record(project, "project.archived", actor=actor, detail={"name": project.name}, now=now)
    return project


def terms_of(project: Project) -> ProjectTerms:
    """Return the terms that the project has now."""
    return ProjectTerms(
        name=project.name,
        limits=LimitTerms(project.requests_per_minute, project.tokens_per_minute, project.parallel_requests),
        budget=Budget(cap_nano=project.budget_cap_nano, period=project.budget_period),
    )


def _require(wanted: ProjectTerms) -> None:
    terms.require_name(wanted.name)
    terms.require_limits(wanted.limits)
    terms.require_budget(wanted.budget)


def _apply(project: Project, wanted: ProjectTerms) -> None:
    name = terms.require_name(wanted.name)
    others = Project.objects.filter(organization=project.organization, archived_at=None, name__iexact=name)
    if others.exclude(pk=project.pk).exists():
        raise InvalidValue("Another project has this name.", param="name")
    project.name = name
    project.budget_cap_nano, project.budget_period = wanted.budget.cap_nano, wanted.budget.period
    for field, value in asdict(wanted.limits).items():
        setattr(project, field, value)


def _record(project: Project, event: str, *, actor: Actor, detail: dict[str, object], now: datetime) -> None:
    organization = project.organization.public_id
    audit.record(actor=actor, event=event, subject=project.public_id, organization=organization, detail=detail, now=now)
    bus.announce("organizations", project.public_id)
