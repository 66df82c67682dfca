"""Operator pages: checks over the fleet, how they are judged, reference figures. Main route `operators:checks`."""

from decimal import Decimal

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from poolhouse_common import checks as catalogue
from poolhouse_common.check import Check

from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.models import CheckMode, Gpu, Opinion, Verdict
from portal.nodes.rules import states
from portal.nodes.rules.checks import Policy
from portal.nodes.selectors import checks as selectors
from portal.nodes.selectors import nodes as node_selectors
from portal.nodes.selectors.check_rows import check_row, check_rows, figure_rows, node_checks, result_row
from portal.nodes.services import check_policies, check_results, check_rounds
from portal.nodes.services.check_policies import PolicySpec
from portal.operators.access import OperatorRequest, operator_page

_PERCENTS = ("fail_percent", "warn_percent", "most_percent")
_LIMITS = ("fail_limit", "warn_limit")


class PolicyForm(forms.Form):
    """How a check is judged: by percentages of a reference figure, or by limits of its own."""

    mode = forms.ChoiceField(choices=CheckMode.choices)
    fail_percent = forms.IntegerField(label="Fails below, percent of the reference", min_value=0, max_value=1000)
    warn_percent = forms.IntegerField(label="Warns below, percent", min_value=0, max_value=1000)
    most_percent = forms.IntegerField(
        label="For review above, percent", min_value=0, max_value=1000, help_text="Faster than the card can be."
    )
    fail_limit = forms.DecimalField(label="Fails beyond", required=False, decimal_places=3, max_digits=18)
    warn_limit = forms.DecimalField(label="Warns beyond", required=False, decimal_places=3, max_digits=18)

    def __init__(self, check: Check, policy: Policy, data: object = None) -> None:
        initial = {name: getattr(policy, name) for name in ("mode", *_PERCENTS)}
        initial |= {name: _units(getattr(policy, f"{name}_milli")) for name in _LIMITS}
        super().__init__(data, initial=initial)  # type: ignore[arg-type]  # what a request's POST is
        for name in _LIMITS if check.is_compared else _PERCENTS:
            del self.fields[name]
        if not check.unit:
            for name in _LIMITS:
                del self.fields[name]


class ReferenceForm(forms.Form):
    """A reference figure."""

    hardware = forms.CharField(max_length=96, help_text="As nodes report it, such as NVIDIA GeForce RTX 4090.")
    figure = forms.DecimalField(
        required=False,
        decimal_places=3,
        max_digits=18,
        min_value=Decimal("0.001"),
        help_text="In the check's unit. Empty: there is none, whatever is published.",
    )
    source = forms.CharField(max_length=240, required=False, help_text="Where it comes from.")


class OpinionForm(forms.Form):
    """What the operator found."""

    opinion = forms.ChoiceField(choices=Opinion.choices, required=False)


@operator_page
def checks(request: OperatorRequest) -> HttpResponse:
    """List the checks."""
    return render(request, "operators/checks.html", {"rows": check_rows(now=clock.now())})


@operator_page
def check(request: OperatorRequest, check_id: str) -> HttpResponse:
    """Show one check; a POST sets how it is judged, or a reference figure."""
    known = _known(check_id)
    row = check_row(check=known, now=clock.now())
    is_reference = "hardware" in request.POST
    policy_form = PolicyForm(known, row.policy, request.POST if request.POST and not is_reference else None)
    reference_form = ReferenceForm(request.POST if is_reference else None)
    form = reference_form if is_reference else policy_form
    if request.method == "POST" and form.is_valid():
        try:
            _save(request, known, row.policy, form)
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "Saved. Results from now on are judged so.")
            return redirect("operators:check", check_id=check_id)
    return render(request, "operators/check.html", _context(known, policy_form, reference_form))


@operator_page
def result(request: OperatorRequest, result_id: int) -> HttpResponse:
    """Show one result; a POST keeps the operator's opinion of it."""
    row = selectors.result(result_id)
    form = OpinionForm(request.POST or None, initial={"opinion": row.opinion})
    if request.method == "POST" and form.is_valid():
        opinion = form.cleaned_data["opinion"]
        check_results.give_opinion(result_id=row.pk, opinion=opinion, actor=request.actor, now=clock.now())
        return redirect("operators:node-checks", node_id=row.node.public_id)
    subjects = {gpu.uuid: f"GPU {gpu.index}" for gpu in Gpu.objects.filter(node=row.node)}
    shown = result_row(row, subjects=subjects, fleet={})
    return render(request, "operators/check_result.html", {"result": shown, "form": form})


@operator_page
def of_node(request: OperatorRequest, node_id: str) -> HttpResponse:
    """Show a node's results; a POST asks it for a round."""
    row = node_selectors.fleet_node(node_id)
    if request.method == "POST":
        try:
            check_rounds.ask_on_demand(node_id=node_id, actor=request.actor, now=clock.now())
        except DomainError as error:
            messages.warning(request, error.sentences)
        return redirect("operators:node-checks", node_id=node_id)
    found = node_checks(node=row, now=clock.now())
    is_open = found.round is not None and found.round.is_open
    can_ask = row.state in states.LIVE_STATES and not is_open
    context = {"node": row, "checks": found, "can_ask": can_ask, "is_operator_page": True}
    return render(request, "operators/node_checks.html", context)


def _known(check_id: str) -> Check:
    found = catalogue.find(check_id)
    if found is None:
        raise Http404("there is no such check")
    return found


def _context(known: Check, policy_form: PolicyForm, reference_form: ReferenceForm) -> dict[str, object]:
    now = clock.now()
    rows = selectors.results_of_check(
        check=known.id, verdicts=[Verdict.FAIL, Verdict.REVIEW], since=now - selectors.WINDOW
    )
    return {
        "row": check_row(check=known, now=now),
        "figures": figure_rows(check=known, now=now) if known.is_compared else [],
        "policy_form": policy_form,
        "reference_form": reference_form,
        "results": [result_row(one, subjects={}, fleet={}) for one in rows],
    }


def _save(request: OperatorRequest, known: Check, before: Policy, form: forms.Form) -> None:
    given, now = form.cleaned_data, clock.now()
    if isinstance(form, ReferenceForm):
        check_policies.set_reference(
            hardware=given["hardware"], check_id=known.id, figure_milli=_milli(given["figure"]),
            source=given["source"], actor=request.actor, now=now,
        )  # fmt: skip
        return
    spec = PolicySpec(
        check_id=known.id,
        mode=given["mode"],
        fail_percent=given.get("fail_percent", before.fail_percent),
        warn_percent=given.get("warn_percent", before.warn_percent),
        most_percent=given.get("most_percent", before.most_percent),
        fail_limit_milli=_milli(given.get("fail_limit")),
        warn_limit_milli=_milli(given.get("warn_limit")),
    )
    check_policies.set_policy(spec=spec, actor=request.actor, now=now)


def _milli(value: Decimal | None) -> int | None:
    return None if value is None else int(value * 1000)


def _units(milli: int | None) -> Decimal | None:
    return None if milli is None else Decimal(milli) / 1000


urlpatterns = [
    path("checks/", checks, name="checks"),
    path("checks/<str:check_id>/", check, name="check"),
    path("check-results/<int:result_id>/", result, name="check-result"),
    path("nodes/<str:node_id>/checks/", of_node, name="node-checks"),
]
