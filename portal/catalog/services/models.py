"""Creates catalogue models and moves them through their life."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import IntegrityError, transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.catalog import locks
from portal.catalog.models import Artefact, ArtefactKind, CatalogModel, ModelState, ModelTask
from portal.catalog.rules import parameters, shapes, states, tokenizers
from portal.catalog.services.proofs import prove_overheads
from portal.catalog.services.shapes import require_weight_bytes
from portal.core.errors import Conflict, InvalidValue
from portal.integrations import bus

_PUBLIC_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,46}(/[A-Za-z0-9][A-Za-z0-9._-]{0,46})?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
MAX_DIMENSIONS = 16_384
_DTYPES = frozenset({"bfloat16", "float16", "float32", "auto"})


class ModelExists(Conflict):
    """The id is taken; one id is one artefact for ever."""

    code = "model_exists"


class CommercialUseNotAllowed(Conflict):
    """The model's licence does not allow to sell its answers."""

    code = "commercial_use_not_allowed"


class TokenizerUnbounded(Conflict):
    """With this tokenizer a text may have more tokens than bytes, so that no credit can be held for it."""

    code = "tokenizer_unbounded"


class TokenizerMissing(Conflict):
    """An embedding is charged by our own count of its texts, which needs the tokenizer."""

    code = "tokenizer_missing"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A catalogue entry as the operator gives it; `tokenizer` and `chat_template` are SHA-256 of artefacts."""

    public_id: str
    name: str
    source: str
    revision: str
    artefact_digest: str
    licence: str
    is_commercial_use_allowed: bool
    context_tokens: int
    max_output_tokens: int
    dtype: str
    task: str = ModelTask.CHAT
    embedding_dimensions: int | None = None
    quantization: str = ""
    default_output_tokens: int = 1024
    tokenizer: str | None = None
    chat_template: str | None = None
    end_tokens: int = 1
    engine_args: Mapping[str, object] = field(default_factory=dict)
    supported_parameters: Sequence[str] = ()
    first_token_timeout_s: int = 60
    deprecates_at: datetime | None = None
    config: Mapping[str, object] | None = None
    weight_bytes: int | None = None


def create_model(*, spec: ModelSpec, actor: Actor, now: datetime) -> CatalogModel:
    """Add a draft. Raises InvalidValue, ModelExists, TemplateInvalid, ModelConfigInvalid."""
    _check(spec)
    tokenizer = _artefact(spec.tokenizer, ArtefactKind.TOKENIZER)
    template = _artefact(spec.chat_template, ArtefactKind.CHAT_TEMPLATE)
    proven = _proven(spec.task, tokenizer, template)
    model = CatalogModel(
        public_id=spec.public_id,
        name=spec.name,
        task=spec.task,
        embedding_dimensions=spec.embedding_dimensions,
        source=spec.source,
        revision=spec.revision,
        artefact_digest=spec.artefact_digest,
        licence=spec.licence,
        is_commercial_use_allowed=spec.is_commercial_use_allowed,
        context_tokens=spec.context_tokens,
        max_output_tokens=spec.max_output_tokens,
        default_output_tokens=min(spec.default_output_tokens, spec.max_output_tokens),
        dtype=spec.dtype,
        quantization=spec.quantization,
        tokenizer=tokenizer,
        chat_template=template,
        message_overhead_bytes=proven[0],
        request_overhead_bytes=proven[1],
        end_tokens=spec.end_tokens,
        engine_args=parameters.require_engine_arguments(spec.engine_args),
        supported_parameters=parameters.require_supported_parameters(list(spec.supported_parameters)),
        first_token_timeout_s=spec.first_token_timeout_s,
        deprecates_at=spec.deprecates_at,
        config=spec.config,
        weight_bytes=spec.weight_bytes,
        created_at=now,
    )
    try:
        with transaction.atomic():
            model.save(force_insert=True)
            audit.record(actor=actor, event="model.created", subject=model.public_id, now=now)
            bus.announce("models", model.public_id)
    except IntegrityError as error:
        raise ModelExists(f"{spec.public_id} exists; a new artefact needs a new id", param="public_id") from error
    return model


def activate_model(*, public_id: str, actor: Actor, now: datetime) -> CatalogModel:
    """Offer the model. Raises ModelMoveRefused, CommercialUseNotAllowed, TokenizerUnbounded, TokenizerMissing."""
    with transaction.atomic():
        model = locks.model(public_id)
        _require_sellable(model)
        return _move(model, ModelState.ACTIVE, actor=actor, now=now)


def deprecate_model(
    *, public_id: str, deprecates_at: datetime | None = None, actor: Actor, now: datetime
) -> CatalogModel:
    """Say that the model will go; it is served until it is retired. Raises ModelMoveRefused."""
    with transaction.atomic():
        model = locks.model(public_id)
        model.deprecates_at = deprecates_at or model.deprecates_at or now
        return _move(model, ModelState.DEPRECATED, actor=actor, now=now)


def retire_model(*, public_id: str, actor: Actor, now: datetime) -> CatalogModel:
    """Take the model off the list for good. Raises ModelMoveRefused."""
    with transaction.atomic():
        return _move(locks.model(public_id), ModelState.RETIRED, actor=actor, now=now)


def _move(model: CatalogModel, after: ModelState, *, actor: Actor, now: datetime) -> CatalogModel:
    states.require_move(before=model.state, after=after)
    model.state = after
    model.save(update_fields=["state", "deprecates_at"])
    audit.record(actor=actor, event=f"model.{after.value}", subject=model.public_id, now=now)
    bus.announce("models", model.public_id)
    return model


def _require_sellable(model: CatalogModel) -> None:
    if not model.is_commercial_use_allowed:
        raise CommercialUseNotAllowed(
            f"the licence {model.licence!r} does not allow commercial use",
            fix="Offer a model whose licence allows it, or correct the licence in a new entry.",
        )
    is_embedding = model.task == ModelTask.EMBEDDING
    if model.tokenizer is None:
        if is_embedding:
            raise TokenizerMissing(
                "an embedding is charged by the portal's own count, for which there is no tokenizer",
                fix="Make a new entry with the model's tokenizer.json.",
            )
        return
    if not is_embedding and not _is_bounded(bytes(model.tokenizer.content)):
        raise TokenizerUnbounded(
            "with this tokenizer a text may have more tokens than bytes",
            fix="Offer a model with a byte-level tokenizer.",
        )


def _check(spec: ModelSpec) -> None:
    if not _PUBLIC_ID.fullmatch(spec.public_id):
        raise InvalidValue("use letters, digits, . _ - and one slash", param="public_id")
    if not _SHA256.fullmatch(spec.artefact_digest):
        raise InvalidValue("give the SHA-256 of the model's folder, 64 hex digits", param="artefact_digest")
    if spec.dtype not in _DTYPES:
        raise InvalidValue(f"use one of {', '.join(sorted(_DTYPES))}", param="dtype")
    if not 0 < spec.max_output_tokens <= spec.context_tokens:
        raise InvalidValue("the longest output must fit into the context", param="max_output_tokens")
    if spec.default_output_tokens < 1:
        raise InvalidValue("the default output is at least one token", param="default_output_tokens")
    if spec.task not in ModelTask.values:
        raise InvalidValue(f"use one of {', '.join(ModelTask.values)}", param="task")
    _check_dimensions(spec)
    for name in ("name", "source", "revision", "licence"):
        if not getattr(spec, name).strip():
            raise InvalidValue(f"{name} must be given", param=name)
    require_weight_bytes(spec.weight_bytes)
    if spec.config is not None:
        shapes.shape_of(
            config=spec.config, weight_bytes=spec.weight_bytes, dtype=spec.dtype, quantization=spec.quantization
        )


def _check_dimensions(spec: ModelSpec) -> None:
    length = spec.embedding_dimensions
    if spec.task == ModelTask.CHAT and length is not None:
        raise InvalidValue("only embedding models have dimensions", param="embedding_dimensions")
    if spec.task == ModelTask.EMBEDDING and not (length and 1 <= length <= MAX_DIMENSIONS):
        message = f"give the length of the model's vectors, 1 to {MAX_DIMENSIONS}"
        raise InvalidValue(message, param="embedding_dimensions")


def _artefact(digest: str | None, kind: ArtefactKind) -> Artefact | None:
    if digest is None:
        return None
    found = Artefact.objects.filter(sha256=digest, kind=kind).first()
    if found is None:
        raise InvalidValue(f"there is no {kind.value} with this digest; upload it first", param=kind.value)
    return found


def _proven(task: str, tokenizer: Artefact | None, template: Artefact | None) -> tuple[int | None, int | None]:
    if tokenizer is None:
        return None, None
    content = bytes(tokenizer.content)
    if not _is_bounded(content):
        return None, None
    if task == ModelTask.EMBEDDING:
        return None, tokenizers.added_tokens(tokenizers.require_tokenizer(content))
    proven = prove_overheads(bytes(template.content)) if template is not None else None
    return (proven.message_bytes, proven.request_bytes) if proven else (None, None)


def _is_bounded(content: bytes) -> bool:
    parsed = tokenizers.require_tokenizer(content)
    added = tokenizers.added_tokens(parsed)
    return added is not None and added <= tokenizers.MAX_ADDED_TOKENS and tokenizers.is_bounded_by_bytes(parsed)
