"""`make test-gpu` prints what the probes read; without a GPU one sentence, and it ends well."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from poolhouse_agent.nvml.inventory import GpuReport

from tests.fakes.nvml import build, record
from tests.gpu.table import table

ROOT = Path(__file__).parents[2]


def reported(profile: str) -> GpuReport:
    found = json.loads((record.REPORTS / f"{profile}.json").read_text(encoding="utf-8"))
    return GpuReport(tuple(found["gpus"]), tuple(found["errors"]), found["driver"], found["cuda"])


def run(**environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.gpu", "--probes"], cwd=ROOT, env={**os.environ, **environ}, capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip


def test_each_reading_has_a_line_and_each_gpu_a_column() -> None:
    lines = table(reported("mig")).splitlines()

    assert lines[0] == "driver 570.133.20, CUDA 12.8, 2 GPUs"
    assert lines[1].strip().startswith("mig_enabled: The GPU is partitioned (MIG) (GPU-")
    cells = {line.split("  ")[0]: [cell.strip() for cell in line.split("  ") if cell.strip()][1:] for line in lines[3:]}
    assert cells["memory"] == ["80.0 GiB", "80.0 GiB"]
    assert cells["utilization_percent"] == ["0 %", "unknown: not_supported"]
    assert cells["fan_percent"] == ["unknown: not_supported", "unknown: not_supported"]
    assert cells["instances"] == ["none", "NVIDIA A100-SXM4-80GB MIG 3g.40gb, NVIDIA A100-SXM4-80GB MIG 2g.20gb"]


def test_without_a_gpu_one_sentence_says_so(tmp_path: Path) -> None:
    done = run(POOLHOUSE_NVML=str(tmp_path / "none.so"))

    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("test-gpu: skipped: NVIDIA's management library is missing (")
    assert first.endswith("Install the NVIDIA driver; in a container start it with `--gpus all`.")
    assert last == "0 passed, 0 failed"


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
def test_with_one_the_table_is_printed(tmp_path: Path) -> None:
    scenario = build.Scenario(tmp_path / "scenario.txt")

    done = run(POOLHOUSE_NVML=str(build.build(tmp_path)), NVML_STUB=str(scenario.path))

    assert (done.returncode, done.stderr) == (0, "")
    assert "NVIDIA GeForce RTX 4090" in done.stdout
