"""Operator pages: what a model needs of GPUs, and the config.json that says it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from poolhouse_common.planner import MAX_CONFIG_BYTES, report
from poolhouse_common.planner.kv_cache import token_bytes
from poolhouse_common.planner.weights import weight_bytes

from portal.catalog.models import CatalogModel
from portal.catalog.rules.shapes import ModelConfigInvalid
from portal.catalog.selectors import models as selectors
from portal.catalog.selectors import shapes
from portal.catalog.services.shapes import describe_model
from portal.core import clock
from portal.core.errors import DomainError
from portal.operators.access import OperatorRequest, operator_page


class ConfigForm(forms.Form):
    """A model's config.json and the size of its weights."""

    config = forms.FileField(label="config.json", help_text="The release's own file, unchanged.")
    weight_bytes = forms.IntegerField(
        label="Size of the weights, bytes",
        required=False,
        min_value=1,
        help_text="The sum of its safetensors files. Without it, what config.json implies is taken.",
    )


def memory_of(row: CatalogModel) -> dict[str, Any] | None:
    """Return what the model's page says of memory; None where its config.json was not stored."""
    try:
        shape = shapes.shape_of(row)
    except ModelConfigInvalid as error:
        return {"problem": error.sentences}
    if shape is None:
        return None
    kinds = shapes.gpu_kinds()
    needs = shapes.needs_of(row, kinds)
    cache_dtype = shapes.wish_of(row, concurrency=1).kv_dtype
    return {
        "line": report.model_line(shape),
        "weights": weight_bytes(shape, tensor_parallel=1),
        "token": token_bytes(shape, tensor_parallel=1, kv_dtype=cache_dtype),
        "needs": needs,
        "why": "" if needs else shapes.why_nowhere(row, kinds),
    }


@operator_page
def describe(request: OperatorRequest, model_id: int) -> HttpResponse:
    """Store the config.json of a model that has none yet, or of a draft."""
    row = selectors.model_by_key(model_id)
    form = ConfigForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        content = form.cleaned_data["config"].read(MAX_CONFIG_BYTES + 1)
        try:
            describe_model(
                public_id=row.public_id, config=content, weight_bytes=form.cleaned_data["weight_bytes"],
                actor=request.actor, now=clock.now(),
            )  # fmt: skip
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "The config.json is stored: plans and placement know the model's memory.")
            return redirect("operators:model", model_id=model_id)
    return render(request, "operators/model_config.html", {"form": form, "row": row})


urlpatterns = [path("models/<int:model_id>/config/", describe, name="model-config")]
