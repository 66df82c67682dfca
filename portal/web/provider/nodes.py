"""The provider's nodes: the list, one node, and what its owner decides about it. Main route `provider:nodes`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse

from portal.accounts.models import Role
from portal.audit.services import Actor
from portal.catalog.selectors.models import deployable_models, model
from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.models import EngineKind, Node, NodeState
from portal.nodes.rules.deployments import MAX_CONCURRENCY
from portal.nodes.selectors import nodes as selectors
from portal.nodes.selectors.check_rows import summary as check_summary
from portal.nodes.selectors.hardware import hardware_of
from portal.nodes.selectors.placement import verdicts_of
from portal.nodes.selectors.releases import updates_of
from portal.nodes.selectors.rows import deployment_row, event_row, node_row
from portal.nodes.selectors.work import class_note, explain_work
from portal.nodes.services import deployments, lifecycle
from portal.providers.rules.states import may_use_external_engine
from portal.trust.selectors.audits import audits_of
from portal.trust.selectors.evidence import evidence_of
from portal.web.access import ProviderRequest, provider_page


class DeployForm(forms.Form):
    """What should run on the node."""

    max_concurrency = forms.IntegerField(
        label="Requests at once",
        initial=8,
        min_value=1,
        max_value=MAX_CONCURRENCY,
        help_text="More than this are sent elsewhere. `poolhouse-agent plan MODEL` on the machine tells what fits.",
    )

    def __init__(self, node: Node, data: Mapping[str, str] | None = None) -> None:
        super().__init__(data)
        models = [(row.public_id, f"{row.name} ({row.public_id})") for row in deployable_models()]
        engines = [(kind.value, kind.label) for kind in engines_for(node)]
        self.fields["model"] = forms.ChoiceField(choices=models, help_text="From this pool's catalogue.")
        self.fields["engine"] = forms.ChoiceField(
            choices=engines, help_text="How the node serves it. vLLM is started and watched by the agent itself."
        )
        self.order_fields(["model", "engine", "max_concurrency"])


class RetireForm(forms.Form):
    """The name typed again, since retiring cannot be undone."""

    name = forms.CharField(label="Type the node's name to confirm")

    def __init__(self, node: Node, data: Mapping[str, str] | None = None) -> None:
        super().__init__(data)
        self.node = node

    def clean_name(self) -> str:
        """Refuse another name."""
        name: str = self.cleaned_data["name"]
        if name.strip() != self.node.name:
            raise forms.ValidationError(f"This node is called {self.node.name}.")
        return name


def engines_for(node: Node) -> list[EngineKind]:
    """Return the engines that this node may use."""
    external = may_use_external_engine(kind=node.provider.kind, has_right=node.provider.may_use_external_engine)
    own = EngineKind.SIMULATE if node.is_simulated else EngineKind.VLLM
    return [own, EngineKind.EXTERNAL] if external else [own]


@provider_page()
def nodes(request: ProviderRequest) -> HttpResponse:
    """List the provider's nodes."""
    state = request.GET.get("state", "")
    rows = [node_row(node) for node in selectors.nodes_of(provider=request.provider, with_retired=state == "retired")]
    shown = [row for row in rows if not state or row.state == state]
    counts = selectors.states_count(provider=request.provider)
    context = {"rows": shown, "state": state, "states": sorted(counts.items()), "has_any": bool(counts)}
    return render(request, "provider/nodes.html", context)


@provider_page()
def node(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Show one node; htmx refreshes the live part alone."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    template = "provider/node_live.html" if "live" in request.GET else "provider/node.html"
    return render(request, template, _node_context(row))


@provider_page()
def deploy(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Ask which model to serve on the node."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    form = DeployForm(row, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            _deploy(request, row, form)
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "The node has been asked to serve the model; it answers within 15 seconds.")
            return redirect("provider:node", node_id=node_id)
    return render(request, "provider/node_deploy.html", {"node": row, "form": form})


@provider_page()
def stop(request: ProviderRequest, deployment: str) -> HttpResponse:
    """Stop a model on a node, after asking."""
    row = selectors.deployment_of(provider=request.provider, public_id=deployment)
    if request.method == "POST":
        deployments.stop(deployment=row, actor=request.actor, now=clock.now())
        messages.success(request, f"{row.model.name} takes no new requests; running ones end.")
        return redirect("provider:node", node_id=row.node.public_id)
    return render(request, "provider/deployment_stop.html", {"deployment": row, "node": row.node})


@provider_page()
def drain(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Drain a node, after asking."""
    return _decide(request, node_id, "provider/node_drain.html", lifecycle.drain)


@provider_page()
def resume(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Let a drained node take requests again."""
    return _decide(request, node_id, "provider/node_resume.html", lifecycle.resume)


@provider_page(post_role=Role.ADMIN)
def retire(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Retire a node for good, after its name has been typed."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    form = RetireForm(row, request.POST or None)
    if request.method == "POST" and form.is_valid():
        lifecycle.retire(node_id=row.public_id, actor=request.actor, now=clock.now())
        messages.success(request, f"{row.name} is retired.")
        return redirect("provider:nodes")
    return render(request, "provider/node_retire.html", {"node": row, "form": form})


class _Decision(Protocol):
    def __call__(self, *, node_id: str, actor: Actor, now: datetime) -> Node: ...


def _decide(request: ProviderRequest, node_id: str, template: str, decision: _Decision) -> HttpResponse:
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    if request.method == "POST":
        decision(node_id=row.public_id, actor=request.actor, now=clock.now())
        return redirect("provider:node", node_id=node_id)
    return render(request, template, {"node": row})


def _deploy(request: ProviderRequest, row: Node, form: DeployForm) -> None:
    deployments.deploy(
        node=row,
        model=model(form.cleaned_data["model"]),
        engine=EngineKind(form.cleaned_data["engine"]),
        settings={},
        max_concurrency=form.cleaned_data["max_concurrency"],
        actor=request.actor,
        now=clock.now(),
    )


def _node_context(row: Node) -> dict[str, object]:
    is_open = row.state not in {NodeState.RETIRED, NodeState.SUSPENDED}
    return {
        "node": row,
        "why": explain_work(node=row),
        "class_note": class_note(node=row),
        "updates": updates_of(node=row),
        "hardware": hardware_of(node=row),
        "checks": check_summary(node=row),
        "checks_url": reverse("provider:node-checks", args=[row.public_id]),
        "deployments": [deployment_row(item) for item in selectors.deployments_of(node=row)],
        "events": [event_row(event) for event in selectors.events_of(node=row, limit=30)],
        "audits": audits_of(node=row, now=clock.now()),
        "evidence": evidence_of(node=row, with_facts=False),
        "shows_facts": False,
        "placement": verdicts_of(node=row),
        "can_set_placement": is_open,
        "can_deploy": is_open,
        "can_drain": is_open and not row.is_drain_wanted,
        "can_resume": is_open and row.is_drain_wanted,
        "can_retire": row.state != NodeState.RETIRED,
    }


urlpatterns = [
    path("nodes/", nodes, name="nodes"),
    path("nodes/<str:node_id>/", node, name="node"),
    path("nodes/<str:node_id>/deploy/", deploy, name="node-deploy"),
    path("nodes/<str:node_id>/drain/", drain, name="node-drain"),
    path("nodes/<str:node_id>/resume/", resume, name="node-resume"),
    path("nodes/<str:node_id>/retire/", retire, name="node-retire"),
    path("deployments/<str:deployment>/stop/", stop, name="deployment-stop"),
]
