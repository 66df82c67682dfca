"""The CUDA of the engine's PyTorch against the driver's, told from files."""

from pathlib import Path

import pytest
from poolhouse_agent.checks.cuda import cuda
from poolhouse_agent.checks.result import Surroundings
from poolhouse_agent.config import Config
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.state import State


def engine(folder: Path, version_file: str | None) -> Path:
    """A venv with a `vllm` and, where given, a PyTorch."""
    program = folder / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)
    if version_file is not None:
        torch = folder / "lib/python3.12/site-packages/torch"
        torch.mkdir(parents=True)
        (torch / "version.py").write_text(version_file, encoding="ascii")
    return program


@pytest.mark.parametrize(
    ("version_file", "driver", "status", "code"),
    [
        ("cuda: Optional[str] = '12.8'\n", 12080, "ok", ""),
        ("cuda: Optional[str] = '12.8'\n", 12040, "ok", ""),
        ("cuda = '13.0'\n", 12080, "fail", "cuda_version_low"),
        ("cuda: Optional[str] = '12.8'\n", 13000, "ok", ""),
        ("cuda: Optional[str] = None\n", 12080, "fail", "cuda_not_built_in"),
        ("nothing\n", 12080, "skip", ""),
        (None, 12080, "skip", ""),
        ("cuda = '12.8'\n", None, "skip", ""),
    ],
)
async def test_driver_and_pytorch(
    tmp_path: Path, version_file: str | None, driver: int | None, status: str, code: str
) -> None:
    program = engine(tmp_path / "venv", version_file)
    report = GpuReport(gpus=({"uuid": "GPU-1"},), cuda=driver)

    (result,) = await cuda(Surroundings(State(tmp_path), Config(vllm=str(program)), report))

    assert (result.status, result.code) == (status, code)
    assert (result.threshold != "") == (status == "ok" or code == "cuda_version_low")
