"""Finds the Python that the engine runs in: PyTorch is there."""

import shlex
from pathlib import Path

from poolhouse_agent.config import Config
from poolhouse_agent.engine import versions
from poolhouse_agent.errors import EngineError
from poolhouse_agent.state import State

_SHEBANG_BYTES = 512


def find(config: Config, state: State) -> str:
    """Return the Python of the vLLM that would be started. Raises EngineError `engine_python_missing`."""
    try:
        program = Path(versions.find(config.vllm, root=state.folder / versions.ROOT).path)
    except EngineError as error:
        raise EngineError("engine_python_missing", error.detail) from None
    for python in (_interpreter(program), program.resolve().parent / "python3", program.parent / "python3"):
        if python is not None and python.is_file():
            return str(python)
    raise EngineError("engine_python_missing", f"{program} is not a program of a Python environment")


def _interpreter(program: Path) -> Path | None:
    """The interpreter that the script's first line names, where it is a Python."""
    try:
        with program.open("rb") as script:
            first = script.read(_SHEBANG_BYTES).split(b"\n", 1)[0].decode("utf-8", "replace")
    except OSError:
        return None
    if not first.startswith("#!"):
        return None
    words = shlex.split(first[2:])
    return Path(words[0]) if words and Path(words[0]).name.startswith("python") else None
