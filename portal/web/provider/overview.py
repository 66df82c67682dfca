"""Provider overview: what is earned, what waits, why a node gets no work. Route `provider:overview`."""

from dataclasses import dataclass

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import path
from poolhouse_common import failures

from portal.billing.selectors import balances, earnings
from portal.core import clock
from portal.nodes.models import Node, NodeState
from portal.nodes.selectors import nodes
from portal.payouts.selectors.accounts import account_of
from portal.providers.models import ProviderKind, ProviderState
from portal.providers.selectors.agreements import has_accepted
from portal.web import daily
from portal.web.access import ProviderRequest, provider_page

_SHOWN_NODES = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the way to the first payout: what, whose move it is, where."""

    title: str
    note: str
    state: str
    route: str


@provider_page()
def overview(request: ProviderRequest) -> HttpResponse:
    """Show where the organization stands as a provider."""
    provider = request.provider
    view = daily.read(QueryDict(), groups=["node"], now=clock.now())
    rows = earnings.earnings_by_day(provider_id=provider.pk, first=view.first, last=view.last, group="node")
    names = earnings.node_names(provider_id=provider.pk, ids=daily.group_ids(rows))
    fleet = list(nodes.nodes_of(provider=provider))
    steps = _steps(request, fleet)
    context = {
        "provider": provider,
        "balance": balances.provider_balance(provider=provider.public_id),
        "total": daily.total(rows),
        "tokens_total": sum(row.tokens for row in rows),
        "labels": daily.labels(view),
        "series": daily.series(rows, view, names),
        "fleet": [(node, _why(node)) for node in fleet[:_SHOWN_NODES]],
        "serving": sum(node.state == NodeState.SERVING for node in fleet),
        "node_count": len(fleet),
        "steps": steps,
        "is_ready": all(step.state == "completed" for step in steps),
    }
    return render(request, "provider/overview.html", context)


def _steps(request: ProviderRequest, fleet: list[Node]) -> list[Step]:
    provider, is_house = request.provider, request.provider.kind == ProviderKind.HOUSE
    is_accepted = has_accepted(provider=provider, now=clock.now())
    steps = [
        Step("Describe yourself", _profile_note(provider.state), _profile_state(provider.state), "provider:profile"),
        Step("Accept the agreement", "The terms under which nodes earn.", _done(is_accepted), "provider:profile"),
        Step("Join a node", "One command on the server.", _done(bool(fleet)), "provider:enrol"),
    ]
    if not is_house:
        account = account_of(provider=provider)
        state = account.state if account else "not_started"
        steps.append(
            Step(
                "Set up payouts",
                "Stripe checks who you are and where the money goes.",
                "completed" if state == "active" else state,
                "provider:payouts",
            )
        )
    return steps


def _done(is_done: bool) -> str:  # noqa: FBT001  a state in words
    return "completed" if is_done else "not_started"


def _profile_state(state: str) -> str:
    return "completed" if state == ProviderState.APPROVED else state


def _profile_note(state: str) -> str:
    return {
        ProviderState.SUBMITTED.value: "Waits for the operator.",
        ProviderState.REJECTED.value: "The operator has refused it; the reason is on the profile page.",
        ProviderState.SUSPENDED.value: "Suspended by the operator; the reason is on the profile page.",
    }.get(state, "Name, country and contact, for the operator to approve.")


def _why(node: Node) -> str:
    """Say in one sentence why the node gets no work; empty while it serves."""
    if node.state == NodeState.SERVING or not node.state_code:
        return ""
    found = failures.explain(node.state_code)
    return f"{found.cause} {found.fix}".strip()


urlpatterns = [path("", overview, name="overview")]
