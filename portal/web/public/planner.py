"""The page where an owner without an account sees which models fit a machine, and what they would earn."""

from typing import Any

from django import forms
from django.core.cache import caches
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe
from poolhouse_common import planner
from poolhouse_common.failures import explain
from poolhouse_common.planner import report, roofline

from portal.billing.rules import prospects as sums
from portal.billing.rules.prospects import Assumptions
from portal.billing.selectors import prospects
from portal.billing.selectors.prospects import Estimate, Offer, Outlook
from portal.catalog.selectors.shapes import gpu_kinds
from portal.core import clock
from portal.nodes.selectors.speeds import measured_speeds
from portal.web.access import public_page
from portal.web.public.machine_text import MAX_LETTERS, Machine, read_machine

_USUAL = Assumptions(kwh_nano=0)
_SECONDS = 60
_CACHE = "process"
_KINDS_KEY, _SPEEDS_KEY = "public.planner.kinds", "public.planner.speeds"


class MachineForm(forms.Form):
    """A machine, and the assumptions that the sum is made from."""

    machine = forms.CharField(
        label="Your machine",
        max_length=MAX_LETTERS,
        help_text="GPUs, and what electricity costs you: `3 x 4090, 0.30/kWh`",
        widget=forms.TextInput(attrs={"placeholder": "3 x 4090, 0.30/kWh", "autocomplete": "off", "list": "kinds"}),
    )
    utilization_percent = forms.IntegerField(
        label="Busy, percent of the time", min_value=1, max_value=100, initial=_USUAL.utilization_percent
    )
    prompt_tokens = forms.IntegerField(
        label="Prompt of a request, tokens", min_value=1, max_value=100_000, initial=_USUAL.prompt_tokens
    )
    completion_tokens = forms.IntegerField(
        label="Its answer, tokens", min_value=1, max_value=32_768, initial=_USUAL.completion_tokens
    )
    concurrency = forms.IntegerField(label="Requests at once", min_value=1, max_value=256, initial=_USUAL.concurrency)
    other_watts = forms.IntegerField(
        label="The rest of the machine, watts", min_value=0, max_value=5000, initial=_USUAL.other_watts
    )


@public_page
@require_safe
def show(request: HttpRequest) -> HttpResponse:
    """Show the form and, once a machine was written, every offered model on it."""
    form = MachineForm(_given(request) if "machine" in request.GET else None)
    kinds = _kinds()
    context: dict[str, Any] = {"form": form, "kinds": kinds}
    if form.is_bound and form.is_valid():
        try:
            machine = read_machine(form.cleaned_data["machine"], kinds)
        except planner.GpusRefused as error:
            form.add_error("machine", f"{error.detail}. {explain(error.code).fix}")
        else:
            context |= _answer(machine, form.cleaned_data, kinds)
    return render(request, "public/planner.html", context)


def _given(request: HttpRequest) -> dict[str, Any]:
    """What was written, and the usual assumption for the rest: a link may name the machine alone."""
    usual = {name: field.initial for name, field in MachineForm.base_fields.items()}
    return usual | {name: value for name, value in request.GET.items() if value}


def _answer(machine: Machine, given: dict[str, Any], kinds: tuple[planner.GpuKind, ...]) -> dict[str, Any]:
    names = ("utilization_percent", "prompt_tokens", "completion_tokens", "concurrency", "other_watts")
    assumed = Assumptions(kwh_nano=machine.kwh_nano, **{name: given[name] for name in names})
    offered = prospects.offers(now=clock.now())
    rows = prospects.outlooks(offered=offered, gpus=machine.gpus, kinds=kinds, given=assumed, speeds=_speeds(kinds))
    together = prospects.together(rows, gpus=machine.gpus, kinds=kinds, given=assumed)
    return {
        "machine": machine,
        "named": report.gpu_names(machine.gpus),
        "assumed": assumed,
        "paying": [_paying(row.offer, row.estimate) for row in rows if row.estimate],
        "others": [_other(row) for row in rows if row.estimate is None],
        "together": together,
        "running": ", ".join(f"{offer.name} on {report.gpu_names(one.plan.gpus)}" for offer, one in together.rows),
        "watts": round(together.milliwatts / 1000),
        "hours": sums.HOURS_A_MONTH,
        "idle_percent": sums.IDLE_PERCENT,
        "shares": roofline,
    }


def _paying(offer: Offer, estimate: Estimate) -> dict[str, Any]:
    return {
        "offer": offer,
        "plan": estimate.plan,
        "memory": report.budget_rows(estimate.plan),
        "reach": report.limits(estimate.plan),
        "sequences": estimate.sequences,
        "prefill": round(estimate.speed.prefill),
        "decode": round(estimate.speed.decode),
        "is_measured": estimate.is_measured,
        "sum": estimate.prospect,
        "watts": round(estimate.prospect.milliwatts / 1000),
    }


def _other(row: Outlook) -> dict[str, Any]:
    if row.plan is None:
        why = "Its memory is not known: the operator has not stored its config.json."
    elif row.plan.fits:
        why = "It fits; what it would earn cannot be estimated for such requests."
    else:
        why = "; ".join(reason.detail for reason in row.plan.reasons)
    return {"offer": row.offer, "why": why, "instead": [one.text for one in row.suggestions]}


def _kinds() -> tuple[planner.GpuKind, ...]:
    found: tuple[planner.GpuKind, ...] | None = caches[_CACHE].get(_KINDS_KEY)
    if found is None:
        found = gpu_kinds()
        caches[_CACHE].set(_KINDS_KEY, found, _SECONDS)
    return found


def _speeds(kinds: tuple[planner.GpuKind, ...]) -> prospects.Speeds:
    found: prospects.Speeds | None = caches[_CACHE].get(_SPEEDS_KEY)
    if found is None:
        found = measured_speeds(kinds)
        caches[_CACHE].set(_SPEEDS_KEY, found, _SECONDS)
    return found


urlpatterns = [path("plan/", show, name="planner")]
