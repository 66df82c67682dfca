"""Versions of vLLM are installed beside one another, each in its own venv; one that broke off is none."""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from poolhouse_agent.engine import install, versions
from poolhouse_agent.errors import EngineError


def wheel(folder: Path, version: str) -> None:
    """A package called vllm, with a program, for an installation without a network."""
    name = f"vllm-{version}"
    files = {
        "vllm/__init__.py": f'def main():\n    print("{version}")\n',
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": "[console_scripts]\nvllm = vllm:main\n",
    }
    record = "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items())
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{name}.dist-info/RECORD", f"{record}{name}.dist-info/RECORD,,\n")


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_a_version_is_installed_and_becomes_the_current_one(tmp_path: Path) -> None:
    packages, root = tmp_path / "packages", tmp_path / "vllm"
    packages.mkdir()
    wheel(packages, "0.32.0")
    environ = {
        "PATH": os.defpath, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages), "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(install.__file__).parents[2]),
    }  # fmt: skip
    argv = [sys.executable, "-m", install.__name__]

    done = subprocess.run([*argv, "0.32.0", str(root)], env=environ, check=False, capture_output=True, text=True)
    missing = subprocess.run([*argv, "0.33.0", str(root)], env=environ, check=False, capture_output=True, text=True)

    found = versions.find("", root=root, wanted="0.32.0")
    assert done.returncode == 0, done.stderr
    assert subprocess.check_output([found.path], text=True).strip() == found.version == "0.32.0"
    assert versions.find("", root=root) == versions.Program(str(root / "current" / "bin" / "vllm"), "0.32.0")
    assert (missing.returncode, "engine_install_failed" in missing.stderr) == (1, True)
    assert versions.installed(root) == ["0.32.0"]


def test_nothing_of_a_package_runs_while_it_is_installed(tmp_path: Path) -> None:
    _, pip = install.commands("0.32.0", tmp_path)

    assert pip[pip.index("--only-binary") + 1] == ":all:"
    assert pip[-1] == "vllm==0.32.0"


def test_an_installation_that_broke_off_is_none(tmp_path: Path) -> None:
    program = tmp_path / "0.32.0" / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.touch()

    with pytest.raises(EngineError) as refused:
        versions.find("", root=tmp_path, wanted="0.32.0")

    assert refused.value.code == "engine_version_missing"
    assert versions.installed(tmp_path) == []


@pytest.mark.parametrize(
    "version", ["0.21.0", "0.9", "latest", "0.32.0; rm -rf /", "../0.32.0", "0.32.0 --pre", "", "1"]
)
def test_what_is_no_version_above_the_floor_is_never_installed(tmp_path: Path, version: str) -> None:
    with pytest.raises(EngineError) as refused:
        install.install(version, root=tmp_path)

    assert refused.value.code == "engine_version_unsupported"
    assert list(tmp_path.iterdir()) == []


def test_the_owners_program_goes_before_the_pools_version(tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)

    found = versions.find(str(program), root=tmp_path / "none", wanted="0.33.0")

    assert found == versions.Program(str(program))
