"""The catalogue: what customers may ask for. One public id is one artefact digest, for ever."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class ArtefactKind(models.TextChoices):
    """What an uploaded file is."""

    TOKENIZER = "tokenizer"
    CHAT_TEMPLATE = "chat_template"
    WEIGHT_LIST = "weight_list"


class Artefact(models.Model):
    """A tokenizer.json, a chat template or a list of weight files, addressed by its SHA-256."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    kind = models.CharField(max_length=16, choices=ArtefactKind)
    content = models.BinaryField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:12]}"


class ModelState(models.TextChoices):
    """Whether customers see the model."""

    DRAFT = "draft"
    ACTIVE = "active"
    DEPRECATED = "deprecated"
    RETIRED = "retired"


class ModelTask(models.TextChoices):
    """What a model does: it answers chats and continues texts, or turns texts into vectors."""

    CHAT = "chat"
    EMBEDDING = "embedding"


class CatalogModel(models.Model):
    """A model as customers name it. `artefact_digest` pins weights, tokenizer, template and dtype.

    An embedding model's `request_overhead_bytes` is what its tokenizer adds to each text, None where bytes bound none.
    `config` is the release's config.json, from which plans are made, and `weight_bytes` the size of its weights' files.
    """

    public_id = models.CharField(max_length=96, unique=True)
    name = models.CharField(max_length=120)
    task = models.CharField(max_length=12, choices=ModelTask, default=ModelTask.CHAT)
    state = models.CharField(max_length=12, choices=ModelState, default=ModelState.DRAFT)
    source = models.CharField(max_length=240)
    revision = models.CharField(max_length=64)
    artefact_digest = models.CharField(max_length=64)
    licence = models.CharField(max_length=80)
    is_commercial_use_allowed = models.BooleanField()
    context_tokens = models.PositiveIntegerField()
    max_output_tokens = models.PositiveIntegerField()
    default_output_tokens = models.PositiveIntegerField(default=1024)
    embedding_dimensions = models.PositiveIntegerField(null=True, blank=True)
    dtype = models.CharField(max_length=16)
    quantization = models.CharField(max_length=24, blank=True)
    tokenizer = models.ForeignKey(Artefact, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    chat_template = models.ForeignKey(Artefact, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    message_overhead_bytes = models.PositiveIntegerField(null=True, blank=True)
    request_overhead_bytes = models.PositiveIntegerField(null=True, blank=True)
    end_tokens = models.PositiveSmallIntegerField(default=1)
    config = models.JSONField(null=True, blank=True)
    weight_bytes = models.BigIntegerField(null=True, blank=True)
    engine_args = models.JSONField(default=dict)
    supported_parameters = ArrayField(models.CharField(max_length=48), default=list)
    first_token_timeout_s = models.PositiveIntegerField(default=60)
    deprecates_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(state__in=ModelState.values), name="catalog_model_state_known"),
            models.CheckConstraint(condition=models.Q(task__in=ModelTask.values), name="catalog_model_task_known"),
            models.CheckConstraint(
                condition=models.Q(task=ModelTask.CHAT, embedding_dimensions=None)
                | models.Q(task=ModelTask.EMBEDDING, embedding_dimensions__gte=1),
                name="catalog_dimensions_of_embeddings",
            ),
            models.CheckConstraint(
                condition=models.Q(max_output_tokens__lte=models.F("context_tokens")),
                name="catalog_output_within_context",
            ),
            models.CheckConstraint(
                condition=models.Q(default_output_tokens__lte=models.F("max_output_tokens")),
                name="catalog_default_within_max",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id


class GpuFigures(models.Model):
    """One kind of GPU as the operator corrects or adds it: it stands before the shipped kind of the same name.

    `bf16_tenths` and `measured_tenths` (0: not known) are dense products with 32-bit sums, in tenths of TFLOPS.
    """

    name = models.CharField(max_length=64, unique=True)
    aliases = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    memory_mib = models.PositiveIntegerField()
    bandwidth_gbps = models.PositiveIntegerField()
    bf16_tenths = models.PositiveIntegerField()
    measured_tenths = models.PositiveIntegerField(default=0)
    watts = models.PositiveIntegerField()
    capability = models.CharField(max_length=8)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(memory_mib__gte=1, bandwidth_gbps__gte=1, bf16_tenths__gte=1, watts__gte=1),
                name="catalog_gpu_figures_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name
