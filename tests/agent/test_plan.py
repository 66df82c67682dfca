"""`plan`: exact words on each kind of machine, JSON by its published schema, and a clear sentence where none can be."""

import json
from pathlib import Path

import jsonschema
import pytest
from poolhouse_agent import cli
from poolhouse_agent.state import Membership, State
from poolhouse_common.artefacts import folder_digest

from tests.agent.plans import record
from tests.fakes import model_configs
from tests.fakes.nvml import build

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / "plan.json").read_text())


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if build.compiler() is None:
        pytest.skip("no C compiler for the stand-in of libnvidia-ml")
    return build.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "none.toml").touch()
    record.model_folder(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("POOLHOUSE_NVML", "/none")
    return tmp_path


def plan(folder: Path, *words: str) -> tuple[int, str]:
    return record.printed(folder, "plan", str(folder / "model"), *words)


@pytest.mark.parametrize("profile", record.PROFILES)
def test_every_kind_of_machine_reads_exactly_this(
    folder: Path, library: Path, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = build.Scenario(folder / "scenario.txt", profile)
    monkeypatch.setenv("NVML_STUB", str(scenario.path))
    monkeypatch.setenv("POOLHOUSE_NVML", str(library))

    found = record.text(*plan(folder, *record.WANTED))

    assert found == (record.FOLDER / f"{profile}.txt").read_text()


def test_memory_that_something_else_holds_is_noted(
    folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = build.Scenario(folder / "scenario.txt", "rtx4090x2")
    with scenario.path.open("a", encoding="ascii") as handle:
        handle.write("gpu0.mem_used=12884901888\n")
    monkeypatch.setenv("NVML_STUB", str(scenario.path))
    monkeypatch.setenv("POOLHOUSE_NVML", str(library))

    _, out = plan(folder, *record.WANTED)
    status, as_json = plan(folder, "--json", *record.WANTED)

    note = "12.00 GiB of GPU-00000000-0000-4000-8000-000000000001 are in use; an engine wants 21.59 GiB free"
    assert out.splitlines()[-1] == f"note: {note} [gpu_memory_in_use]"
    assert (status, json.loads(as_json)["notes"]) == (0, [{"code": "gpu_memory_in_use", "detail": note}])
    jsonschema.validate(json.loads(as_json), SCHEMA)


def test_json_keeps_to_the_published_schema(folder: Path) -> None:
    for words in (("--gpus", "3 x 4090"), ("--gpus", "3090"), ("--gpus", "4090", "--context", "8192", "--digest")):
        status, out = plan(folder, "--json", *words)

        found = json.loads(out)
        jsonschema.validate(found, SCHEMA)
        assert status == (0 if found["fits"] else 1)


def test_the_digest_is_the_one_that_the_catalogue_pins(folder: Path) -> None:
    status, out = plan(folder, "--gpus", "4090", "--context", "8192", "--digest")

    assert status == 0
    assert out.splitlines()[-1] == f"digest of the folder: {folder_digest(folder / 'model')}"


def test_the_size_of_the_files_stands_before_what_the_config_implies(folder: Path) -> None:
    weights = folder / "model" / "model.safetensors"
    with weights.open("wb") as handle:
        handle.truncate(16_060_556_376)
    _, whole = plan(folder, "--json", "--gpus", "4090", "--context", "8192")
    weights.unlink()
    index = {"metadata": {"total_size": 8_030_278_188}, "weight_map": {}}
    (folder / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    _, half = plan(folder, "--json", "--gpus", "4090", "--context", "8192")

    found = [json.loads(out)["gpu_bytes"]["weights"] for out in (whole, half)]
    assert found == [16_060_556_376, 8_030_278_188]


def test_a_model_is_found_by_its_name_in_the_configuration(folder: Path) -> None:
    (folder / "none.toml").write_text(f'[models]\n"acme/chat-8b" = "{folder / "model"}"\n')

    status, out = record.printed(folder, "plan", "acme/chat-8b", "--gpus", "4090", "--context", "8192")

    assert (status, out.splitlines()[0]) == (0, "fits: 1 request of 8,192 tokens on 1 x RTX 4090")


def test_a_simulated_node_plans_for_its_simulated_gpus(folder: Path) -> None:
    state = State(folder / "state")
    state.create()
    state.store_membership(Membership("node_a", "prov_a", "http://127.0.0.1:1", "rack", simulate="h100x8"))

    status, out = plan(folder, "--context", "131072", "--concurrency", "3")

    assert (status, out.splitlines()[0]) == (0, "fits: 3 requests of 131,072 tokens on 1 x NVIDIA H100 80GB HBM3")


def test_the_owners_share_of_a_gpu_is_kept_to(folder: Path) -> None:
    (folder / "none.toml").write_text("[engine]\ngpu_memory_utilization = 0.5\n")

    _, out = plan(folder, "--gpus", "4090", "--context", "8192", "--json")

    found = json.loads(out)
    assert found["wanted"]["gpu_memory_utilization"] == 0.5
    assert found["gpu_bytes"]["usable"] == found["gpu_bytes"]["total"] // 2


def test_another_release_can_be_asked_for(folder: Path) -> None:
    status, out = plan(folder, "--gpus", "T4", "--context", "8192", "--quantization", "awq")

    assert status == 0
    assert "8.03 B weights, awq 4 bit, 32 layers" in out


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        (("--gpus", "2 x Voodoo"), "gpu_unknown", "The table of GPUs has no entry that is spelled like it."),
        (("--quantization", "gguf", "--gpus", "4090"), "quantization_unsupported", "does not serve the format"),
        ((), "nvml_library_missing", "libnvidia-ml.so.1 cannot be loaded"),
    ],
)
def test_where_no_plan_can_be_made_a_sentence_says_why(
    folder: Path, words: tuple[str, ...], code: str, cause: str
) -> None:
    status, out = plan(folder, *words)

    assert status == 2
    assert f"[{code}]" in out
    assert cause in out
    assert "  fix:   " in out


@pytest.mark.parametrize("number", ["0", "-4", "many"])
def test_a_number_that_is_none_is_named(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["plan", "model", f"--concurrency={number}"])

    assert f"argument --concurrency: {number!r} is no whole number above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "model_config_missing"),
        ("{", "model_config_invalid"),
        (json.dumps({"model_type": "voodoo"}), "architecture_unknown"),
        (json.dumps({**model_configs.LLAMA_3_1_8B, "vocab_size": None}), "model_config_invalid"),
    ],
)
def test_a_model_that_cannot_be_read_is_named(folder: Path, content: str | None, code: str) -> None:
    config = folder / "model" / "config.json"
    config.unlink()
    if content is not None:
        config.write_text(content)

    status, out = plan(folder, "--gpus", "4090")

    assert status == 2
    assert f"[{code}]" in out
