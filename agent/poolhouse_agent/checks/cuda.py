"""Whether the driver's CUDA is new enough for the PyTorch beside the engine, told from files alone."""

import re
from dataclasses import replace
from pathlib import Path

from poolhouse_agent.checks.result import Result, Status, Surroundings, ok, skipped, trouble
from poolhouse_agent.engine import versions
from poolhouse_agent.errors import EngineError

_TORCH = "lib/python3*/site-packages/torch/version.py"
_CUDA = re.compile(r"^cuda\b[^=]*=\s*(?:'(\d+)\.(\d+)'|\"(\d+)\.(\d+)\"|None)", re.MULTILINE)


async def cuda(around: Surroundings) -> list[Result]:
    """The CUDA of PyTorch's build against the driver's: within a major version the driver may be older."""
    if not around.gpus.gpus or not around.gpus.cuda:
        return [skipped("gpu.cuda", "no GPU was read")]
    try:
        program = versions.find(around.config.vllm, root=around.state.folder / versions.ROOT).path
    except EngineError:
        return [skipped("gpu.cuda", "no engine is installed yet")]
    built = built_for(Path(program))
    if built is None:
        return [skipped("gpu.cuda", f"no PyTorch beside {program}")]
    if built == (0, 0):
        return [trouble("gpu.cuda", Status.FAIL, "cuda_not_built_in", f"PyTorch beside {program}")]
    offered = around.gpus.cuda // 1000, around.gpus.cuda % 1000 // 10
    words = f"the driver offers CUDA {offered[0]}.{offered[1]}, PyTorch is built for {built[0]}.{built[1]}"
    threshold = f"CUDA {built[0]}.0 or newer"
    if offered[0] < built[0]:
        return [replace(trouble("gpu.cuda", Status.FAIL, "cuda_version_low", words), threshold=threshold)]
    return [replace(ok("gpu.cuda", words), threshold=threshold)]


def built_for(program: Path) -> tuple[int, int] | None:
    """Return the CUDA that the PyTorch of the program's environment is built for; (0, 0) is none, None no PyTorch."""
    for file in sorted(program.resolve().parents[1].glob(_TORCH)):
        found = _CUDA.search(file.read_text(encoding="utf-8", errors="replace"))
        if found is None:
            return None
        major, minor = found[1] or found[3], found[2] or found[4]
        return (int(major), int(minor)) if major else (0, 0)
    return None
