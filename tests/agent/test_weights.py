"""Weights that could run code, or that are not the catalogue's, are refused before anything is started."""

import subprocess
from pathlib import Path

import pytest
from poolhouse_agent.engine import weights
from poolhouse_agent.errors import EngineError
from poolhouse_common.artefacts import folder_digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "weights"
    (made / "sub").mkdir(parents=True)
    (made / "config.json").write_text('{"model_type": "qwen2"}', encoding="ascii")
    (made / "model.safetensors").write_bytes(bytes(1000))
    (made / "sub" / "notes.txt").write_text("x", encoding="ascii")
    return made


def refusal(folder: Path) -> EngineError:
    with pytest.raises(EngineError) as raised:
        weights.require_safe(folder)
    return raised.value


def test_a_plain_folder_is_accepted(folder: Path, tmp_path: Path) -> None:
    weights.require_safe(folder)
    weights.require_digest(folder, folder_digest(folder), cache=tmp_path / "cache.json")


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "x.pt", "x.PTH", "x.pkl", "x.ckpt", "modeling_evil.py", "lib.so", "sub/deep.py"]
)
def test_pickles_and_code_are_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"x")

    assert refusal(folder).code == "weights_unsafe"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", '{"auto_map": {"AutoModel": "evil.Model"}}'),
        ("tokenizer_config.json", '{"a": {"b": [{"auto_map": 1}]}}'),
        ("config.json", "{nope"),
        ("generation_config.json", "[" * 100_000),
    ],
)
def test_configurations_that_ask_for_code_are_refused(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="ascii")

    assert refusal(folder).code == "weights_unsafe"


def test_missing_parts_are_named(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert refusal(folder).code == "weights_missing"

    assert refusal(tmp_path / "nowhere").code == "weights_missing"


def test_a_linked_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "linked").symlink_to(tmp_path)

    assert refusal(folder).code == "weights_unsafe"


def test_one_changed_byte_is_noticed(folder: Path, tmp_path: Path) -> None:
    digest, cache = folder_digest(folder), tmp_path / "cache.json"
    weights.require_digest(folder, digest, cache=cache)

    (folder / "model.safetensors").write_bytes(bytes(999) + b"x")

    with pytest.raises(EngineError) as raised:
        weights.require_digest(folder, digest, cache=cache)
    assert raised.value.code == "weights_mismatch"


@pytest.mark.parametrize("digest", ["", "0" * 64])
def test_another_or_no_digest_is_refused(folder: Path, tmp_path: Path, digest: str) -> None:
    with pytest.raises(EngineError) as raised:
        weights.require_digest(folder, digest, cache=tmp_path / "cache.json")

    assert raised.value.code == "weights_mismatch"


def test_anybody_can_recompute_the_digest(folder: Path) -> None:
    (folder / ".hidden").write_text("does not count", encoding="ascii")
    command = "find . -type f -not -name '.*' -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum"

    printed = subprocess.run(["sh", "-c", command], cwd=folder, check=True, capture_output=True, text=True).stdout

    assert printed.split()[0] == folder_digest(folder)
