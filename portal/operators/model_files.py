"""Operator page: the list of a model's files, by which nodes fetch its weights."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.catalog.rules.weight_lists import MAX_BYTES
from portal.catalog.selectors import models as selectors
from portal.catalog.services.weight_lists import add_list
from portal.core import clock
from portal.core.errors import DomainError
from portal.operators.access import OperatorRequest, operator_page

# Gives the list in the order, and with the names, that a folder's digest is made of.
_COMMAND = "find . -xtype f -not -path '*/.*' -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum > ../files.txt"


class FilesForm(forms.Form):
    """What `sha256sum` prints of the model's folder."""

    listing = forms.FileField(
        label="The list",
        help_text="The `files.txt` that the command wrote.",
        error_messages={"required": "No file was chosen."},
    )


@operator_page
def files(request: OperatorRequest, model_id: int) -> HttpResponse:
    """Store the list of a model's files; its digest proves that it is the model's."""
    row = selectors.model_by_key(model_id)
    form = FilesForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        content = form.cleaned_data["listing"].read(MAX_BYTES)
        try:
            add_list(model_id=row.pk, content=content, actor=request.actor, now=clock.now())
        except DomainError as error:
            form.add_error("listing", error.sentences)
        else:
            messages.success(request, "The list is stored: nodes fetch the model by themselves.")
            return redirect("operators:model", model_id=model_id)
    return render(request, "operators/model_files.html", {"form": form, "row": row, "command": _COMMAND})


urlpatterns = [path("models/<int:model_id>/files/", files, name="model-files")]
