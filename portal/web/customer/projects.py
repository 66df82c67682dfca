"""Projects: keys that share limits and a budget. Main route `customer:projects`."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Project, Role
from portal.accounts.selectors import projects as selectors
from portal.accounts.services import projects as services
from portal.accounts.services.projects import ProjectTerms
from portal.core import clock
from portal.core.errors import DomainError
from portal.web.access import OrganizationRequest, page
from portal.web.customer import key_view
from portal.web.term_fields import BudgetFields, LimitFields, budget_initial, limits_initial, refuse


class ProjectForm(LimitFields, BudgetFields):
    """What a project is called and what its keys share."""

    name = forms.CharField(max_length=80, help_text="What its keys serve together, for example “support chat”.")
    field_order = ("name", "budget_cap", "budget_period")

    def __init__(self, data: QueryDict | None, *, project: Project | None = None) -> None:
        shown = services.terms_of(project) if project else ProjectTerms(name="")
        initial = {"name": shown.name, **budget_initial(shown.budget), **limits_initial(shown.limits)}
        super().__init__(data, initial=initial)

    def wanted(self) -> ProjectTerms:
        """Return the terms that were asked for."""
        return ProjectTerms(name=self.cleaned_data["name"], limits=self.limits(), budget=self.budget())


@page(side="customer")
def projects(request: OrganizationRequest) -> HttpResponse:
    """List the organization's projects with what each has spent."""
    rows = list(selectors.list_projects(organization=request.organization))
    zone = request.organization.time_zone
    budgets = key_view.shown_budgets(
        [(row.public_id, f"project {row.name}", row) for row in rows], zone=zone, now=clock.now()
    )
    shown = [
        {"project": row, "budget": budgets.get(row.public_id), "limits": key_view.limits_text(row)} for row in rows
    ]
    return render(request, "customer/projects.html", {"rows": shown, "zone": zone})


@page(side="customer", role=Role.MEMBER)
def create(request: OrganizationRequest) -> HttpResponse:
    """Ask for the terms of a new project."""
    form = ProjectForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_project(
                organization=request.organization,
                wanted=form.wanted(),
                created_by=request.user,
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            refuse(form, error)
        else:
            messages.success(request, f"{made.name} is ready: choose it when you create or change a key.")
            return redirect("customer:projects")
    return render(request, "customer/project_edit.html", {"form": form, "currency": settings.CURRENCY.upper()})


@page(side="customer", role=Role.MEMBER)
def change(request: OrganizationRequest, project: str) -> HttpResponse:
    """Ask for other terms of an open project."""
    found = selectors.get_project(organization=request.organization, public_id=project)
    form = ProjectForm(request.POST or None, project=found)
    if request.method == "POST" and form.is_valid():
        try:
            services.change_project(
                organization=request.organization,
                public_id=project,
                wanted=form.wanted(),
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            refuse(form, error)
        else:
            messages.success(request, f"{form.cleaned_data['name']} is changed; every gateway knows within a second.")
            return redirect("customer:projects")
    context = {"form": form, "project": found, "currency": settings.CURRENCY.upper()}
    return render(request, "customer/project_edit.html", context)


@page(side="customer", role=Role.MEMBER)
def archive(request: OrganizationRequest, project: str) -> HttpResponse:
    """Ask, then archive."""
    found = selectors.get_project(organization=request.organization, public_id=project)
    if request.method == "POST":
        services.archive_project(
            organization=request.organization, public_id=project, actor=request.actor, now=clock.now()
        )
        messages.success(request, f"{found.name} is archived.")
        return redirect("customer:projects")
    return render(request, "customer/project_archive.html", {"project": found})


urlpatterns = [
    path("projects/", projects, name="projects"),
    path("projects/new/", create, name="project-new"),
    path("projects/<str:project>/", change, name="project"),
    path("projects/<str:project>/archive/", archive, name="project-archive"),
]
