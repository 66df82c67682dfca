"""Operator pages: releases of the agent. The main page's route is named `operators:releases`."""

from dataclasses import dataclass
from datetime import datetime

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.models import AgentRelease, ReleaseRing, ReleaseState
from portal.nodes.selectors import releases as selectors
from portal.nodes.selectors.releases import Spread
from portal.nodes.selectors.rows import explained
from portal.nodes.services import releases as services
from portal.operators.access import OperatorRequest, operator_page

_NOWHERE = Spread(0, 0, 0)
_STOPS = {
    "halt": ("Halt", False, "No further node is offered it. Nodes that run it keep it. You can go on later."),
    "withdraw": ("Withdraw", True, "Nobody is offered it or can install it ever again. Nodes that run it keep it."),
}


class RollOutForm(forms.Form):
    """Whom a release may reach."""

    ring = forms.ChoiceField(label="Ring", choices=ReleaseRing.choices)
    percent = forms.IntegerField(
        label="Percent",
        min_value=0,
        max_value=100,
        help_text="Of the ring's nodes. Who was reached stays reached while the number grows.",
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A release as the list shows it."""

    version: str
    state: str
    why: str
    ring: str
    percent: int
    is_signed: bool
    is_open: bool
    spread: Spread
    published_at: datetime


@operator_page
def releases(request: OperatorRequest) -> HttpResponse:
    """List the releases and how far each has come."""
    spread = selectors.spread()
    context = {
        "rows": [_row(row, spread.get(row.version, _NOWHERE)) for row in selectors.releases()],
        "held_back": selectors.held_back(),
        "has_key": bool(settings.AGENT_RELEASE_PUBLIC_KEY),
    }
    return render(request, "operators/releases.html", context)


@operator_page
def release(request: OperatorRequest, version: str) -> HttpResponse:
    """Offer a release to more nodes or fewer."""
    row = selectors.release(version)
    form = RollOutForm(request.POST or None, initial={"ring": row.ring, "percent": row.percent})
    if request.method == "POST" and form.is_valid():
        try:
            _roll_out(request, version, form)
        except DomainError as error:
            form.add_error(None, error.sentences)
        else:
            messages.success(request, f"{version} is offered to {form.cleaned_data['percent']} % of the ring.")
            return redirect("operators:releases")
    return render(request, "operators/release.html", {"row": row, "form": form, "is_signed": bool(row.signature)})


@operator_page
def stop(request: OperatorRequest, version: str, how: str) -> HttpResponse:
    """Halt or withdraw a release, after asking."""
    row = selectors.release(version)
    if how not in _STOPS:
        raise Http404("a release can be halted or withdrawn")
    name, withdraws, effect = _STOPS[how]
    if request.method == "POST":
        services.stop(version=version, withdraws=withdraws, actor=request.actor, now=clock.now())
        return redirect("operators:releases")
    return render(request, "operators/release_stop.html", {"row": row, "name": name, "effect": effect})


def _roll_out(request: OperatorRequest, version: str, form: RollOutForm) -> None:
    services.roll_out(
        version=version,
        ring=ReleaseRing(form.cleaned_data["ring"]),
        percent=form.cleaned_data["percent"],
        actor=request.actor,
        now=clock.now(),
    )


def _row(row: AgentRelease, spread: Spread) -> Row:
    known = row.state_code and row.state_code != "operator"
    return Row(
        version=row.version,
        state=row.state,
        why=explained(row.state_code).title if known else "",
        ring=row.get_ring_display(),
        percent=row.percent,
        is_signed=bool(row.signature),
        is_open=row.state != ReleaseState.WITHDRAWN,
        spread=spread,
        published_at=row.published_at,
    )


urlpatterns = [
    path("releases/", releases, name="releases"),
    path("releases/<str:version>/", release, name="release"),
    path("releases/<str:version>/<str:how>/", stop, name="release-stop"),
]
