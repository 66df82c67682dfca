"""Operator pages: how models find nodes. The main page's route is named `operators:placement`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.catalog.models import CatalogModel
from portal.catalog.selectors import models as catalog
from portal.core import clock
from portal.core.errors import DomainError
from portal.metering.selectors import demand as demands
from portal.nodes.models import ModelPlacement, PlacementSwitch
from portal.nodes.rules.needs import Need
from portal.nodes.rules.placement import REASONS, Round, Start
from portal.nodes.selectors import placement as selectors
from portal.nodes.selectors.rows import Explained, explained
from portal.nodes.services import placement
from portal.operators.access import OperatorRequest, operator_page

_SHOWN_ROUNDS = 20
_SHOWN_REASONS = 5


class PolicyForm(forms.Form):
    """How rounds decide."""

    switch = forms.ChoiceField(
        choices=PlacementSwitch.choices,
        help_text="Preview decides and explains, and changes nothing. Look at it for a while before you switch it on.",
    )
    grow_at_percent = forms.IntegerField(
        label="Grow at", min_value=1, max_value=100, help_text="Percent of the places of a model's ready nodes."
    )
    shrink_at_percent = forms.IntegerField(
        label="Spare below", min_value=0, max_value=99, help_text="Percent; below it a model may give a node away."
    )
    short_for_s = forms.IntegerField(
        label="Short for", min_value=0, max_value=86_400, help_text="Seconds that a shortage lasts before it counts."
    )
    idle_for_s = forms.IntegerField(
        label="Spare for", min_value=0, max_value=604_800, help_text="Seconds before a spare node may be given away."
    )
    stay_s = forms.IntegerField(
        label="Stay", min_value=0, max_value=604_800, help_text="Seconds that a placed model stays at least."
    )
    moves_a_round = forms.IntegerField(label="Moves a round", min_value=1, max_value=100, help_text="Once a minute.")


class TargetForm(forms.Form):
    """On how many nodes a model should run."""

    minimum = forms.IntegerField(
        label="At least", min_value=0, max_value=1000, help_text="Nodes that serve it whether or not it is asked for."
    )
    maximum = forms.IntegerField(
        label="At most", min_value=0, max_value=1000, required=False, help_text="Leave empty for no limit."
    )


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model with what is asked of it and what it has."""

    model: CatalogModel
    need: Need
    minimum: int
    maximum: int | None
    why: str
    since: object


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A move that a round decided or would decide now."""

    action: str
    model: str
    node: str
    why: Explained
    refused: str = ""


@dataclass(frozen=True, slots=True)
class RejectionRow:
    """Why nodes were not given a model that is short, the most frequent reason first."""

    model: str
    reasons: Sequence[tuple[int, Explained]]


@operator_page
def overview(request: OperatorRequest) -> HttpResponse:
    """Show what would be placed now and why, what each model has, and the newest rounds; a POST sets the policy."""
    now = clock.now()
    policy = selectors.policy()
    form = PolicyForm(request.POST or None, initial={name: getattr(policy, name) for name in PolicyForm.base_fields})
    if request.method == "POST" and form.is_valid():
        try:
            placement.set_policy(values=form.cleaned_data, actor=request.actor, now=now)
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "Rounds decide by these values from the next minute on.")
            return redirect("operators:placement")
    models = list(catalog.deployable_models())
    found = placement.look(demand=demands.by_model(now=now), now=now, is_brief=True)
    context = {
        "form": form,
        "policy": policy,
        "is_held": selectors.is_fleet_silent(now=now),
        "moves": _moves(found),
        "models": _model_rows(models, found),
        "rejections": _rejections(models, found),
        "rounds": [(row, [_stored(move) for move in row.moves]) for row in selectors.rounds(limit=_SHOWN_ROUNDS)],
        "nodes": selectors.automatic_nodes(),
        "held": explained("placement_held"),
    }
    return render(request, "operators/placement.html", context)


@operator_page
def target(request: OperatorRequest, model_id: int) -> HttpResponse:
    """Set on how many nodes a model should run."""
    model = catalog.model_by_key(model_id)
    row = selectors.targets().get(model.pk) or ModelPlacement(model=model)
    initial = {"minimum": row.minimum_nodes, "maximum": row.maximum_nodes}
    form = TargetForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        wanted = form.cleaned_data
        try:
            placement.set_target(
                model=model, minimum=wanted["minimum"], maximum=wanted["maximum"], actor=request.actor, now=clock.now()
            )
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, f"{model.public_id}: set.")
            return redirect("operators:placement")
    return render(request, "operators/placement_target.html", {"model": model, "form": form})


def _moves(found: Round) -> list[MoveRow]:
    stops = [
        MoveRow("stop", stop.model.public_id, stop.node.public_id, explained(stop.code, stop.room_for))
        for stop in found.stops
    ]
    return stops + [_start(start) for start in found.starts]


def _start(start: Start) -> MoveRow:
    why = explained("placement_starts", REASONS[start.code])
    return MoveRow("start", start.model.public_id, start.node.public_id, why)


def _stored(move: dict[str, str]) -> MoveRow:
    why = explained(move["code"], move["detail"])
    return MoveRow(move["action"], move["model"], move["node"], why, move["refused"])


def _model_rows(models: Sequence[CatalogModel], found: Round) -> list[ModelRow]:
    wishes = selectors.targets()
    rows = []
    for model in models:
        need = found.needs.get(model.pk)
        if need is not None:
            wish = wishes.get(model.pk) or ModelPlacement(model=model)
            why = REASONS.get(need.code, "could spare a node" if need.is_spare else "")
            since = need.short_since or need.idle_since
            rows.append(ModelRow(model, need, wish.minimum_nodes, wish.maximum_nodes, why, since))
    return rows


def _rejections(models: Sequence[CatalogModel], found: Round) -> list[RejectionRow]:
    """Of each short model, why the nodes that did not get it did not."""
    needs = ((model, found.needs.get(model.pk)) for model in models)
    short = {model.public_id for model, need in needs if need is not None and need.code}
    counts: dict[str, Counter[str]] = {name: Counter() for name in sorted(short)}
    for verdicts in found.verdicts.values():
        for verdict in verdicts:
            for name in short if not verdict.model else {verdict.model} & short:
                if verdict.action == "reject":
                    counts[name][verdict.code] += 1
    return [
        RejectionRow(name, [(number, explained(code)) for code, number in reasons.most_common(_SHOWN_REASONS)])
        for name, reasons in counts.items()
    ]


urlpatterns = [
    path("placement/", overview, name="placement"),
    path("placement/models/<int:model_id>/", target, name="placement-target"),
]
