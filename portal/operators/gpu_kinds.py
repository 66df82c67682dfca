"""Operator pages: the kinds of GPUs that plans are made for. Shipped figures can be corrected, other kinds added."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.catalog.selectors import shapes
from portal.catalog.services.shapes import Figures, drop_figures, save_figures
from portal.core import clock
from portal.core.errors import DomainError
from portal.operators.access import OperatorRequest, operator_page

_TENTHS = 10


class FiguresForm(forms.Form):
    """The figures of one kind."""

    name = forms.CharField(max_length=64, help_text="A shipped kind of the same name gives way to yours.")
    aliases = forms.CharField(
        label="Other spellings", required=False, max_length=400, help_text="Separated by commas, such as `4090 48GB`."
    )
    memory_mib = forms.IntegerField(label="Memory, MiB", min_value=1, help_text="As the driver reports it.")
    bandwidth_gbps = forms.IntegerField(label="Memory bandwidth, GB/s", min_value=1)
    bf16_tflops = forms.DecimalField(
        label="bfloat16, TFLOPS", min_value=0, max_digits=7, decimal_places=1, help_text="Dense, with 32-bit sums."
    )
    measured_tflops = forms.DecimalField(
        label="Measured, TFLOPS", required=False, min_value=0, max_digits=7, decimal_places=1,
        help_text="What matrix products reach, where that is known.",
    )  # fmt: skip
    watts = forms.IntegerField(label="Power, watts", min_value=1)
    capability = forms.CharField(label="Compute capability", max_length=8, help_text="Such as 8.9.")


@operator_page
def kinds(request: OperatorRequest) -> HttpResponse:
    """List every known kind; those with figures of the operator's own are marked."""
    own = {row.name for row in shapes.figures_of_operator()}
    rows = [{"kind": kind, "is_own": kind.name in own} for kind in shapes.gpu_kinds()]
    return render(request, "operators/gpu_kinds.html", {"rows": rows})


@operator_page
def edit(request: OperatorRequest) -> HttpResponse:
    """Correct or add a kind; `?name=` starts from what is known of one."""
    form = FiguresForm(request.POST or None, initial=_initial(request.GET.get("name", "")))
    if request.method == "POST" and form.is_valid():
        try:
            save_figures(figures=_figures(form.cleaned_data), actor=request.actor, now=clock.now())
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "Stored. Plans from now on use these figures.")
            return redirect("operators:gpu-kinds")
    return render(request, "operators/gpu_kind.html", {"form": form})


@operator_page
def drop(request: OperatorRequest) -> HttpResponse:
    """Take the operator's own figures of a kind back, after asking."""
    name = request.POST.get("name") or request.GET.get("name", "")
    if request.method == "POST":
        drop_figures(name=name, actor=request.actor, now=clock.now())
        messages.success(request, f"Your figures of {name} are gone.")
        return redirect("operators:gpu-kinds")
    return render(request, "operators/gpu_kind_drop.html", {"name": name})


def _initial(name: str) -> dict[str, Any]:
    found = next((kind for kind in shapes.gpu_kinds() if kind.name == name), None)
    if found is None:
        return {}
    return {
        "name": found.name, "aliases": ", ".join(found.aliases), "memory_mib": found.memory_bytes >> 20,
        "bandwidth_gbps": found.bandwidth // 10**9, "bf16_tflops": found.flops / 10**12,
        "measured_tflops": found.measured_flops / 10**12 or None, "watts": found.watts,
        "capability": found.capability,
    }  # fmt: skip


def _figures(given: dict[str, Any]) -> Figures:
    return Figures(
        name=given["name"], aliases=given["aliases"].split(","), memory_mib=given["memory_mib"],
        bandwidth_gbps=given["bandwidth_gbps"], bf16_tenths=int(given["bf16_tflops"] * _TENTHS),
        measured_tenths=int((given["measured_tflops"] or 0) * _TENTHS), watts=given["watts"],
        capability=given["capability"].strip(),
    )  # fmt: skip


urlpatterns = [
    path("gpu-kinds/", kinds, name="gpu-kinds"),
    path("gpu-kinds/edit/", edit, name="gpu-kind"),
    path("gpu-kinds/drop/", drop, name="gpu-kind-drop"),
]
