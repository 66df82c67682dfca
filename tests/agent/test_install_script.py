"""The install script says what it needs, and takes away only what it brought."""

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "agent" / "install.sh"


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(SCRIPT), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
        timeout=60,
    )


def test_a_machine_without_python_is_told_what_to_do(tmp_path: Path) -> None:
    for tool in ("dirname", "cat", "sh"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")

    done = run(str(tmp_path / "prefix"), PATH=str(tmp_path))

    assert done.returncode == 2
    assert "Python 3.11 or newer" in done.stderr
    assert not (tmp_path / "prefix").exists()


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    (prefix / "precious").write_text("x", encoding="ascii")

    installed = run(str(prefix))
    removed = run("--uninstall", str(prefix))

    assert installed.returncode == 2
    assert removed.returncode == 0
    assert (prefix / "precious").exists()


def test_uninstall_removes_what_was_installed(tmp_path: Path) -> None:
    prefix, binaries = tmp_path / "prefix", tmp_path / "bin"
    (prefix / "bin").mkdir(parents=True)
    binaries.mkdir()
    program = prefix / "bin" / "poolhouse-agent"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)
    (binaries / "poolhouse-agent").symlink_to(program)

    done = run("--uninstall", str(prefix), POOLHOUSE_BIN=str(binaries))

    assert done.returncode == 0
    assert not prefix.exists()
    assert not list(binaries.iterdir())
