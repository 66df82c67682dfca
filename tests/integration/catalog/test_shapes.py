"""A model's config.json and the operator's figures of GPUs: stored once, audited, and what plans come of them."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, transaction

from portal.audit.models import AuditEvent
from portal.audit.services import Actor
from portal.catalog.models import CatalogModel, GpuFigures
from portal.catalog.rules.shapes import ModelConfigInvalid
from portal.catalog.selectors import shapes as selectors
from portal.catalog.services import shapes
from portal.core.errors import InvalidValue, NotFound
from tests.factories.catalog import CatalogModelFactory
from tests.fakes.model_configs import GEMMA_3_27B, LLAMA_3_1_8B, QWEN3_235B_FP8
from tests.world import World

ACTOR = Actor(public_id="user_operator")
LLAMA = json.dumps(LLAMA_3_1_8B).encode()
GEMMA = json.dumps(GEMMA_3_27B).encode()


@pytest.fixture
def model(db) -> CatalogModel:
    return CatalogModelFactory()


def describe(model: CatalogModel, content: bytes = LLAMA, weight_bytes: int | None = None, *, now) -> CatalogModel:
    return shapes.describe_model(
        public_id=model.public_id, config=content, weight_bytes=weight_bytes, actor=ACTOR, now=now
    )


def test_an_offered_model_gets_its_config_once(model, now):
    described = describe(model, weight_bytes=16_060_556_376, now=now)

    assert (described.config, described.weight_bytes) == (LLAMA_3_1_8B, 16_060_556_376)
    assert AuditEvent.objects.get().event == "model.described"
    with pytest.raises(shapes.ConfigStored) as refused:
        describe(model, GEMMA, now=now)
    assert refused.value.code == "model_config_stored"
    model.refresh_from_db()
    assert model.config == LLAMA_3_1_8B


def test_a_draft_may_be_described_anew(db, now):
    draft = CatalogModelFactory(is_draft=True)
    describe(draft, now=now)

    assert describe(draft, GEMMA, now=now).config == GEMMA_3_27B


def test_the_database_itself_keeps_the_config_of_an_offered_model(model, now):
    describe(model, now=now)

    with pytest.raises(IntegrityError, match="one model id is one artefact"), transaction.atomic():
        CatalogModel.objects.filter(pk=model.pk).update(config=GEMMA_3_27B)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "model_config_invalid"),
        (b"[]", "model_config_invalid"),
        (json.dumps({"model_type": "voodoo"}).encode(), "architecture_unknown"),
        (
            json.dumps({**LLAMA_3_1_8B, "quantization_config": {"quant_method": "gguf"}}).encode(),
            "quantization_unsupported",
        ),
    ],
)
def test_a_config_that_no_plan_can_be_made_from_is_refused_with_its_reason(model, now, content, code):
    with pytest.raises(ModelConfigInvalid) as refused:
        describe(model, content, now=now)

    assert refused.value.code == code
    assert refused.value.fix
    model.refresh_from_db()
    assert model.config is None


@pytest.mark.parametrize("weight_bytes", [0, -1, 1 << 50])
def test_a_size_that_no_model_has_is_refused(model, now, weight_bytes):
    with pytest.raises(InvalidValue):
        describe(model, weight_bytes=weight_bytes, now=now)


def test_a_model_is_planned_as_the_catalogue_serves_it(db):
    plain = CatalogModelFactory(config=LLAMA_3_1_8B)
    online = CatalogModelFactory(config=LLAMA_3_1_8B, quantization="fp8")
    half = CatalogModelFactory(config=LLAMA_3_1_8B, dtype="float16")
    release = CatalogModelFactory(config=QWEN3_235B_FP8, dtype="bfloat16", quantization="fp8")
    automatic = CatalogModelFactory(config=LLAMA_3_1_8B, dtype="auto")

    rows = (plain, online, half, release, automatic)
    labels = [found.quantization.label for row in rows if (found := selectors.shape_of(row))]
    assert labels == ["bfloat16", "fp8", "float16", "fp8", "bfloat16"]
    assert selectors.shape_of(CatalogModelFactory()) is None


def test_engine_arguments_that_memory_depends_on_are_in_the_wish(db):
    row = CatalogModelFactory(
        engine_args={
            "tensor_parallel_size": 2, "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.8, "enforce_eager": True,
            "max_num_batched_tokens": 4096, "block_size": 32,
        }
    )  # fmt: skip

    wish = selectors.wish_of(row, concurrency=4)

    found = (wish.context, wish.concurrency, wish.tensor_parallel, wish.kv_dtype, wish.utilization)
    assert found == (8192, 4, 2, "fp8", 0.8)
    assert (wish.is_eager, wish.batched_tokens, wish.block_tokens) == (True, 4096, 32)


FIGURES = shapes.Figures(
    name="RTX 4090 48GB", memory_mib=49140, bandwidth_gbps=1008, bf16_tenths=1650, watts=450, capability="8.9",
    measured_tenths=1600, aliases=("4090 48GB", " "),
)  # fmt: skip


def test_the_operators_figures_stand_before_shipped_ones(db, now):
    shapes.save_figures(figures=FIGURES, actor=ACTOR, now=now)
    corrected = shapes.Figures("RTX 4090", 24564, 1008, 1650, 400, "8.9")
    shapes.save_figures(figures=corrected, actor=ACTOR, now=now)

    kinds = {kind.name: kind for kind in selectors.gpu_kinds()}

    modded = kinds["RTX 4090 48GB"]
    assert (modded.memory_bytes, modded.measured_flops, modded.aliases) == (49140 << 20, 160 * 10**12, ("4090 48GB",))
    assert kinds["RTX 4090"].watts == 400
    shapes.drop_figures(name="RTX 4090", actor=ACTOR, now=now)
    assert {kind.name: kind for kind in selectors.gpu_kinds()}["RTX 4090"].watts == 450
    assert [event.event for event in AuditEvent.objects.order_by("id")] == ["gpu_figures.saved"] * 2 + [
        "gpu_figures.dropped"
    ]


def test_figures_that_are_not_there_cannot_be_taken_back(db, now):
    with pytest.raises(NotFound):
        shapes.drop_figures(name="RTX 4090", actor=ACTOR, now=now)


@pytest.mark.parametrize(
    "change", [{"name": " "}, {"watts": 0}, {"memory_mib": 1 << 30}, {"capability": "new"}, {"measured_tenths": -1}]
)
def test_figures_out_of_range_are_refused(db, now, change):
    given = {name: getattr(FIGURES, name) for name in FIGURES.__slots__} | change

    with pytest.raises(InvalidValue):
        shapes.save_figures(figures=shapes.Figures(**given), actor=ACTOR, now=now)

    assert not GpuFigures.objects.exists()


def test_the_models_page_says_what_it_needs(world: World):
    console = world.client(world.operator)
    model = CatalogModelFactory()
    bare = console.get(f"/operator/models/{model.pk}/").text
    upload = {"config": SimpleUploadedFile("config.json", LLAMA), "weight_bytes": "16060556376"}

    console.post(f"/operator/models/{model.pk}/config/", upload)

    page = console.get(f"/operator/models/{model.pk}/").text
    assert "its config.json was not stored" in bare
    assert "LlamaForCausalLM: 8.03 B weights, bfloat16, 32 layers" in page
    rows = {need.kind.name: need for need in console.get(f"/operator/models/{model.pk}/").context["memory"]["needs"]}
    assert (rows["RTX 4090"].plan.tensor_parallel, rows["RTX 4090"].at_once) == (1, 5)
    assert (rows["RTX 3060"].plan.tensor_parallel, rows["RTX 3060"].at_once) == (2, 4)
    assert "T4" not in rows


def test_a_context_that_the_model_was_not_made_for_is_said(world: World):
    model = CatalogModelFactory(config={**LLAMA_3_1_8B, "max_position_embeddings": 4096, "rope_scaling": None})

    page = world.client(world.operator).get(f"/operator/models/{model.pk}/").text

    assert "It fits on no kind of GPU" in page
    assert "On the largest: 8,192 tokens are wanted, the model was made for 4,096." in page


def test_a_stored_config_that_this_version_cannot_plan_for_says_so(world: World):
    model = CatalogModelFactory(config={"model_type": "voodoo"})

    page = world.client(world.operator).get(f"/operator/models/{model.pk}/").text

    assert "No plan can be made." in page
    assert "model_type is &#x27;voodoo&#x27;" in page


def test_a_config_that_is_refused_says_so_beside_the_field(world: World):
    model = CatalogModelFactory()
    upload = {"config": SimpleUploadedFile("config.json", b'{"model_type": "voodoo"}')}

    page = world.client(world.operator).post(f"/operator/models/{model.pk}/config/", upload)

    assert page.status_code == 200
    assert "No plan can be made for this kind of model: model_type is &#x27;voodoo&#x27;" in page.text


def test_the_operator_corrects_and_takes_back_figures(world: World):
    console = world.client(world.operator)
    form = console.get("/operator/gpu-kinds/edit/", {"name": "RTX 4090"})
    given = {name: form.context["form"][name].value() for name in form.context["form"].fields}

    console.post("/operator/gpu-kinds/edit/", {**given, "watts": "350"})

    assert GpuFigures.objects.get().watts == 350
    assert "yours" in console.get("/operator/gpu-kinds/").text
    refused = console.post("/operator/gpu-kinds/edit/", {**given, "capability": "new"})
    assert "write the compute capability such as 8.9" in refused.text
    assert console.get("/operator/gpu-kinds/drop/", {"name": "RTX 4090"}).status_code == 200
    console.post("/operator/gpu-kinds/drop/", {"name": "RTX 4090"})
    assert not GpuFigures.objects.exists()
