"""What `plan` prints on each kind of machine, as recorded: `python -m tests.agent.plans.record` writes it anew."""

import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from poolhouse_agent import cli

from tests.fakes import model_configs
from tests.fakes.nvml import build

FOLDER = Path(__file__).parent
PROFILES = (
    "a100", "driver_mismatch", "ecc", "gb10", "jetson", "mig", "mixed", "no_gpu", "off_the_bus", "old_driver",
    "rtx4090x2", "vgpu", "wsl2",
)  # fmt: skip
WANTED = ("--context", "16384", "--concurrency", "4")


def printed(folder: Path, *words: str) -> tuple[int, str]:
    """Run `plan` on a model that the folder describes; return its exit status and all that it printed."""
    said, complained = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(complained):
        status = cli.main(["--config", str(folder / "none.toml"), "--state", str(folder / "state"), *words])
    return status, said.getvalue() + complained.getvalue()


def model_folder(folder: Path) -> Path:
    """Write an 8B model's config.json there."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(model_configs.LLAMA_3_1_8B))
    return model


def text(status: int, out: str) -> str:
    """What is recorded of one run: all but causes and fixes, which are the catalogue's own words."""
    own = [line for line in out.splitlines() if not line.startswith(("  cause: ", "  fix: "))]
    return "\n".join([f"exit status {status}", *own]) + "\n"


def main() -> None:
    """Write every record."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "none.toml").touch()
        library, model = build.build(folder), model_folder(folder)
        for profile in PROFILES:
            scenario = build.Scenario(folder / "scenario.txt", profile)
            os.environ |= {"NVML_STUB": str(scenario.path), "POOLHOUSE_NVML": str(library)}
            (FOLDER / f"{profile}.txt").write_text(text(*printed(folder, "plan", str(model), *WANTED)))
            sys.stdout.write(f"{profile}\n")


if __name__ == "__main__":
    main()
