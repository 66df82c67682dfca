"""A machine with weights and programs called vllm."""

import json
from pathlib import Path
from typing import Any

from poolhouse_agent.config import Config, ModelFolder
from poolhouse_agent.engine import versions
from poolhouse_agent.state import State
from poolhouse_common import artefacts
from poolhouse_common.artefacts import folder_digest

from tests.fakes.pool import desired
from tests.fakes.vllm import program

MODEL = "acme/demo"
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}
LONG = {"messages": [{"role": "user", "content": "write 4000 words"}], "stream": True, "max_tokens": 900}


class Machine:
    """Weights of a model, and one installed vLLM for each version."""

    def __init__(self, state: State, folder: Path, *installed: str) -> None:
        self.state = state
        self.weights = folder / "weights"
        self.weights.mkdir()
        (self.weights / "config.json").write_text("{}", encoding="ascii")
        (self.weights / "model.safetensors").write_bytes(bytes(64))
        self.folders = {
            version: program.install(state.folder / versions.ROOT, version) for version in installed or ("0.32.0",)
        }
        self.config = Config(models={MODEL: ModelFolder(self.weights)}, nvml="/none")

    def wanted(self, version: str = "0.32.0", **changes: Any) -> dict[str, Any]:
        """The deployment, with a pinned version."""
        digest = folder_digest(self.weights)
        return desired(engine="vllm", artefact_digest=digest, settings={}, engine_version=version, **changes)

    def break_version(self, version: str, log: str) -> None:
        """Let the version fail at its start, with this log."""
        (self.folders[version] / "log.txt").write_text(log, encoding="utf-8")

    def started(self, version: str = "0.32.0") -> dict[str, Any]:
        """How the version was started last."""
        found: dict[str, Any] = json.loads((self.folders[version] / "started.json").read_text(encoding="utf-8"))
        return found

    def starts(self, version: str = "0.32.0") -> list[dict[str, Any]]:
        """How the version was started each time."""
        lines = (self.folders[version] / "starts.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def listed(self) -> list[dict[str, str]]:
        """The weights' files as the portal lists them."""
        return [
            {"path": name, "sha256": artefacts.file_digest(path)}
            for name, path in artefacts.artefact_files(self.weights)
        ]

    def worker(self, version: str = "0.32.0") -> int:
        """The process that the version started beside itself."""
        return int((self.folders[version] / "worker").read_text(encoding="ascii"))

    def note(self, place: str = "") -> dict[str, Any]:
        """The running engine's note."""
        path = self.state.engines / f"dep_1{place}" / "process.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def is_alive(pid: int) -> bool:
    """Whether the process runs, and is no remainder."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
