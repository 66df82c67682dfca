"""Which vLLM is used: the owner's own program, else the version that the pool pins, never one below the floor."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent.errors import EngineError

# Below it the API key can be walked around and model files can run code (CVE-2026-48746, CVE-2026-22807).
FLOOR = (0, 22)
TESTED = "0.32.0"
ROOT = Path("vllm")
CURRENT = "current"
COMPLETE = ".complete"
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})((?:\.post|rc|a|b)\d{1,4})?")
_INSTALLED = re.compile(r"vllm-(\d[^-]*)\.dist-info")


@dataclass(frozen=True, slots=True)
class Program:
    """A `vllm` that can be started; `version` is empty where only running it would tell."""

    path: str
    version: str = ""


def require_sound(version: str) -> str:
    """Return the version where it is one, and not below the floor. Raises EngineError."""
    if _VERSION.fullmatch(version.partition("+")[0]) is None:
        raise EngineError("engine_version_unsupported", f"{version[:32]!r} is not a version")
    if is_below_floor(version):
        raise EngineError("engine_version_unsupported", f"vLLM {version}; {FLOOR[0]}.{FLOOR[1]} is the oldest allowed")
    return version


def is_below_floor(version: str) -> bool:
    """Whether the version is older than what may serve. An unreadable one is."""
    found = _VERSION.match(version)
    return found is None or (int(found[1]), int(found[2])) < FLOOR


def installed(root: Path) -> list[str]:
    """The versions that the agent installed below `root`, in order of their names."""
    return sorted(path.name for path in root.glob("*") if path.name != CURRENT and is_complete(path))


def is_complete(folder: Path) -> bool:
    """Whether an installation ran to its end: one that broke off may have the program and not what it needs."""
    return (folder / COMPLETE).is_file() and (folder / "bin" / "vllm").is_file()


def find(configured: str, *, root: Path, wanted: str = "") -> Program:
    """Return the owner's program, else the wanted version, else the current one, else the one on PATH.

    Raises EngineError `engine_missing`, and `engine_version_missing` where the wanted version must be installed first.
    """
    if configured:
        return _program(shutil.which(configured), configured)
    if wanted:
        folder = root / require_sound(wanted)
        if not is_complete(folder):
            raise EngineError("engine_version_missing", f"vLLM {wanted}")
        return Program(str(folder / "bin" / "vllm"), wanted)
    return _program(shutil.which(root / CURRENT / "bin" / "vllm") or shutil.which("vllm"), "vllm")


def _program(found: str | None, asked: str) -> Program:
    if found is None:
        raise EngineError("engine_missing", f"no program {asked}")
    path = Path(found).absolute()
    return Program(str(path), _version_beside(path))


def _version_beside(program: Path) -> str:
    """The version by the venv's own records: asking the program itself takes many seconds."""
    for folder in program.resolve().parents[1].glob("lib/python*/site-packages/vllm-*.dist-info"):
        if found := _INSTALLED.fullmatch(folder.name):
            return found[1]
    return ""
