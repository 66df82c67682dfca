"""Operator pages: catalogue models. The main page's route is named `operators:models`.

Not called models.py, since Django would read a module of that name as this app's tables.
"""

import json
from collections.abc import Callable
from datetime import datetime

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from poolhouse_common.planner import MAX_CONFIG_BYTES

from portal.catalog.models import ArtefactKind, CatalogModel, ModelTask
from portal.catalog.rules.parameters import SUPPORTED_PARAMETERS
from portal.catalog.rules.rendering import bake
from portal.catalog.rules.states import MODEL_MOVES
from portal.catalog.rules.tokenizers import MAX_TOKENIZER_BYTES
from portal.catalog.selectors import models as selectors
from portal.catalog.selectors.weight_lists import has_list
from portal.catalog.services.artefacts import add_artefact
from portal.catalog.services.models import (
    ModelSpec,
    activate_model,
    create_model,
    deprecate_model,
)
from portal.catalog.services.shapes import read_config
from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.services.deployments import retire_model
from portal.operators.access import OperatorRequest, operator_page
from portal.operators.model_memory import memory_of

_MOVES: dict[str, tuple[str, str, str, Callable[..., CatalogModel]]] = {
    "activate": (
        "Offer",
        "active",
        "Customers see it and may ask for it; what pins it can never change.",
        activate_model,
    ),
    "deprecate": ("Deprecate", "deprecated", "It is served as before and shown as going away.", deprecate_model),
    "retire": ("Retire", "retired", "It is refused with model_not_found from now on, for good.", retire_model),
}


class ModelForm(forms.Form):
    """A new catalogue entry."""

    public_id = forms.CharField(
        label="Id", max_length=96, help_text="As customers write it, such as acme/chat-8b. For ever."
    )
    name = forms.CharField(max_length=120)
    task = forms.ChoiceField(
        choices=[
            (ModelTask.CHAT, "Answers chats and continues texts"),
            (ModelTask.EMBEDDING, "Makes vectors of texts (embeddings)"),
        ],
        initial=ModelTask.CHAT,
    )
    embedding_dimensions = forms.IntegerField(
        label="Length of its vectors",
        required=False,
        min_value=1,
        help_text="For embedding models only: answers with vectors of another length are refused.",
    )
    source = forms.CharField(max_length=240, help_text="Where the weights come from.")
    revision = forms.CharField(max_length=64, help_text="The exact revision of the source.")
    artefact_digest = forms.CharField(
        label="Digest of the folder",
        max_length=64,
        help_text="SHA-256 as `poolhouse-agent plan FOLDER --digest` prints it; nodes refuse other files.",
    )
    licence = forms.CharField(max_length=80)
    is_commercial_use_allowed = forms.BooleanField(
        label="The licence allows to sell its answers",
        required=False,
        help_text="Without it the model cannot be offered.",
    )
    context_tokens = forms.IntegerField(label="Context, tokens", min_value=16)
    max_output_tokens = forms.IntegerField(label="Longest output, tokens", min_value=1)
    default_output_tokens = forms.IntegerField(label="Output where the caller says nothing", min_value=1, initial=1024)
    dtype = forms.ChoiceField(
        label="Number format", choices=[(name, name) for name in ("bfloat16", "float16", "float32", "auto")]
    )
    quantization = forms.CharField(max_length=24, required=False, help_text="As the engine calls it, such as fp8.")
    tokenizer = forms.FileField(label="tokenizer.json", help_text="The portal counts tokens with it.")
    chat_template = forms.FileField(
        label="Chat template", required=False, help_text="The Jinja file of the model. Embedding models need none."
    )
    tokenizer_config = forms.FileField(
        label="tokenizer_config.json", required=False, help_text="For the texts of bos_token and its like."
    )
    config = forms.FileField(
        label="config.json",
        required=False,
        help_text="Of the release: it says how much memory the model needs, on which plans and placement rest.",
    )
    weight_bytes = forms.IntegerField(
        label="Size of the weights, bytes",
        required=False,
        min_value=1,
        help_text="The sum of its safetensors files. Without it, what config.json implies is taken.",
    )
    engine_args = forms.CharField(
        label="Engine arguments",
        required=False,
        initial="{}",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text='JSON, such as {"enable_prefix_caching": true}.',
    )
    supported_parameters = forms.MultipleChoiceField(
        choices=[(name, name) for name in sorted(SUPPORTED_PARAMETERS)],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    def clean_engine_args(self) -> dict[str, object]:
        """Read the JSON object."""
        try:
            parsed: object = json.loads(self.cleaned_data["engine_args"] or "{}")
        except ValueError as error:
            raise forms.ValidationError("Write a JSON object.") from error
        if not isinstance(parsed, dict):
            raise forms.ValidationError("Write a JSON object.")
        return parsed

    def clean(self) -> dict[str, object]:
        """Ask a chat model for its template."""
        given: dict[str, object] = super().clean() or self.cleaned_data
        if given.get("task") == ModelTask.CHAT and not given.get("chat_template"):
            self.add_error("chat_template", "A chat model needs its template.")
        return given

    def clean_tokenizer(self) -> UploadedFile:
        """Refuse a file too large to be a tokenizer."""
        file: UploadedFile = self.cleaned_data["tokenizer"]
        if (file.size or 0) > MAX_TOKENIZER_BYTES:
            raise forms.ValidationError("This file is too large.")
        return file


@operator_page
def models(request: OperatorRequest) -> HttpResponse:
    """List the catalogue."""
    return render(request, "operators/models.html", {"rows": selectors.models_of_operator()})


@operator_page
def create(request: OperatorRequest) -> HttpResponse:
    """Add a draft from the uploaded files."""
    form = ModelForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = _create(request, form)
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "The draft is stored. Set a price, then offer it.")
            return redirect("operators:model", model_id=made.pk)
    return render(request, "operators/model_new.html", {"form": form})


@operator_page
def model(request: OperatorRequest, model_id: int) -> HttpResponse:
    """Show one model and what may be decided about it."""
    row = selectors.model_by_key(model_id)
    moves = [(word, name) for word, (name, after, *_) in _MOVES.items() if _may(row, after)]
    facts = {"memory": memory_of(row), "has_files": has_list(digest=row.artefact_digest)}
    return render(request, "operators/model.html", {"row": row, "moves": moves, **facts})


@operator_page
def move(request: OperatorRequest, model_id: int, move: str) -> HttpResponse:
    """Offer, deprecate or retire a model, after asking."""
    row = selectors.model_by_key(model_id)
    if move not in _MOVES or not _may(row, _MOVES[move][1]):
        return redirect("operators:model", model_id=model_id)
    name, _, effect, service = _MOVES[move]
    if request.method == "POST":
        service(public_id=row.public_id, actor=request.actor, now=clock.now())
        return redirect("operators:model", model_id=model_id)
    return render(request, "operators/model_move.html", {"row": row, "name": name, "effect": effect, "move": move})


def _may(row: CatalogModel, after: str) -> bool:
    return after in MODEL_MOVES[row.state]


def _create(request: OperatorRequest, form: ModelForm) -> CatalogModel:
    now = clock.now()
    given = dict(form.cleaned_data)
    tokenizer_config = given.pop("tokenizer_config")
    template = given.pop("chat_template")
    config = given.pop("config")
    tokenizer = add_artefact(kind=ArtefactKind.TOKENIZER, content=given.pop("tokenizer").read(), now=now)
    stored = _stored_template(template.read(), tokenizer_config, now=now) if template else None
    described = read_config(config.read(MAX_CONFIG_BYTES + 1)) if config else None
    spec = ModelSpec(**given, config=described, tokenizer=tokenizer.sha256, chat_template=stored)
    return create_model(spec=spec, actor=request.actor, now=now)


def _stored_template(content: bytes, tokenizer_config: UploadedFile | None, *, now: datetime) -> str:
    if tokenizer_config:
        content = bake(content.decode(errors="replace"), special_tokens(tokenizer_config.read())).encode()
    return add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=content, now=now).sha256


def special_tokens(content: bytes) -> dict[str, str]:
    """Return the `…_token` texts of a tokenizer_config.json; what cannot be read is left out."""
    try:
        config: object = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    found = config.items() if isinstance(config, dict) else ()
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in found}
    return {name: text for name, text in texts.items() if name.endswith("_token") and isinstance(text, str)}


urlpatterns = [
    path("models/", models, name="models"),
    path("models/new/", create, name="model-new"),
    path("models/<int:model_id>/", model, name="model"),
    path("models/<int:model_id>/<str:move>/", move, name="model-move"),
]
