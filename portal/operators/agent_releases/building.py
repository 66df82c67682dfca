"""Builds a release of the agent from its folder: the same source makes the same bytes."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from portal.core.errors import DomainError

REQUIREMENTS = "requirements.txt"
_SOURCE_DATE = "315532800"  # 1980-01-01, the first that a zip file can hold
_PACKAGES = ("poolhouse_agent", "poolhouse_common")
_BUILD = "import setuptools.build_meta as backend; backend.build_wheel('dist')"
_BUILD_S = 120


class AgentNotBuilt(DomainError):
    """The wheel could not be built from the folder."""

    code = "agent_not_built"


@dataclass(frozen=True, slots=True)
class Built:
    """What a release is made of."""

    version: str
    wheel_name: str
    wheel: bytes
    requirements: bytes


def build(agent: Path, *, license_file: Path | None = None) -> Built:
    """Build the wheel of the agent's folder, whose requirements.txt pins what it needs. Raises AgentNotBuilt."""
    try:
        project = tomllib.loads((agent / "pyproject.toml").read_text(encoding="utf-8"))
        requirements = (agent / REQUIREMENTS).read_bytes()
    except OSError as error:
        raise AgentNotBuilt(f"{agent}: {error}", fix="Run this in a checkout of the software.") from error
    with tempfile.TemporaryDirectory(prefix="poolhouse-agent-") as folder:
        work = Path(folder)
        _copy(agent, work)
        if license_file is not None:
            shutil.copyfile(license_file, work / "LICENSE")
        _even_out(work)
        _run(work)
        wheel = next((work / "dist").glob("*.whl"))
        return Built(project["project"]["version"], wheel.name, wheel.read_bytes(), requirements)


def _copy(agent: Path, work: Path) -> None:
    shutil.copyfile(agent / "pyproject.toml", work / "pyproject.toml")
    for package in _PACKAGES:
        shutil.copytree(agent / package, work / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))


def _even_out(work: Path) -> None:
    """Modes go into the wheel; whoever checks the source out has another umask."""
    for path in work.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _run(work: Path) -> None:
    environ = {"PATH": os.defpath, "HOME": str(work), "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": _SOURCE_DATE}
    done = subprocess.run(  # noqa: S603  our own interpreter with fixed words
        [sys.executable, "-c", _BUILD],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_S,
        umask=0o022,
    )
    if done.returncode != 0:
        raise AgentNotBuilt(f"the wheel could not be built: {done.stderr.strip()[-400:]}")
