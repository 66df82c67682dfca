"""Installs one version of vLLM into a venv of its own, beside the others, and makes it the current one."""

import shutil
import subprocess
import sys
from pathlib import Path

from poolhouse_agent.engine import versions
from poolhouse_agent.errors import EngineError


def commands(version: str, folder: Path) -> list[list[str]]:
    """What is run: a venv, and vLLM from built packages alone, so that no package runs code while it is installed."""
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    return [
        [sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)],
        [*pip, "install", "--no-input", "--only-binary", ":all:", f"vllm=={version}"],
    ]


def install(version: str, *, root: Path) -> Path:
    """Install it where it is not there yet; return its folder. Raises EngineError `engine_install_failed`."""
    folder = root / versions.require_sound(version)
    if not versions.is_complete(folder):
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for argv in commands(version, folder):
            if subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode:  # noqa: S603  our own words
                shutil.rmtree(folder, ignore_errors=True)
                raise EngineError("engine_install_failed", f"{Path(argv[0]).name} failed; its output is above")
        (folder / versions.COMPLETE).touch()
    make_current(version, root=root)
    return folder


def main() -> int:
    """`python -m poolhouse_agent.engine.install VERSION ROOT`; return 0 where it is there."""
    try:
        install(sys.argv[1], root=Path(sys.argv[2]))
    except EngineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def make_current(version: str, *, root: Path) -> None:
    """Let `current` name this version, in one step."""
    link = root / f".{versions.CURRENT}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(version)
    link.replace(root / versions.CURRENT)


if __name__ == "__main__":
    sys.exit(main())
