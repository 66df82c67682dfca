"""Operator page: which version of the engine nodes run, and below which none serves. Main route `operators:engines`."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.models import EngineKind
from portal.nodes.selectors import engines as selectors
from portal.nodes.services.engines import pin
from portal.operators.access import OperatorRequest, operator_page


class PinForm(forms.Form):
    """The version that nodes install beside the one they run, prove, and change to without dropping a stream."""

    version = forms.CharField(
        max_length=32,
        required=False,
        help_text="Such as 0.32.0. Empty: each node runs what its owner installed.",
    )
    floor = forms.CharField(max_length=16, help_text="An engine below it gets no requests.")


@operator_page
def engines(request: OperatorRequest) -> HttpResponse:
    """Show the pin and what the fleet runs; a POST changes the pin."""
    current = selectors.pin_of()
    form = PinForm(request.POST or None, initial={"version": current.version, "floor": current.floor})
    if request.method == "POST" and form.is_valid():
        try:
            pin(
                engine=EngineKind.VLLM, version=form.cleaned_data["version"], floor=form.cleaned_data["floor"],
                actor=request.actor, now=clock.now(),
            )  # fmt: skip
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "Nodes hear of it with their next heartbeat.")
            return redirect("operators:engines")
    return render(request, "operators/engines.html", {"form": form, "rows": selectors.running_versions()})


urlpatterns = [path("engines/", engines, name="engines")]
