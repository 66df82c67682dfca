"""`python -m tests.gpu`: reads this machine's NVIDIA GPUs, measures them and runs the tests marked gpu.

Without one it says why and ends well: nothing was asked of it. `--probes` reads only.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile

from poolhouse_agent import logs
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_common import failures

from tests.gpu.table import table


def main() -> int:
    """Return 0 where everything passed or there is no GPU, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--probes", action="store_true", help="read only: no benchmark, no tests")
    parser.add_argument("--short", action="store_true", help="short benchmarks")
    arguments = parser.parse_args()
    logs.keep_off_terminal()
    report = asyncio.run(Inventory(library=os.environ.get("POOLHOUSE_NVML", "")).read())
    if not report.gpus:
        sys.stdout.write(without(report) + "\n")
        return 0
    sys.stdout.write(table(report) + "\n\n")
    sys.stdout.flush()
    if arguments.probes:
        return 0
    return max(_benchmark(is_short=arguments.short), _tests())


def without(report: GpuReport) -> str:
    """Say in one sentence why there is nothing to test."""
    error = report.errors[0]
    known = failures.explain(error["code"])
    detail = f" ({error['detail']})" if error["detail"] else ""
    return f"test-gpu: skipped: {known.title}{detail}. {known.fix}\n0 passed, 0 failed"


def _benchmark(*, is_short: bool) -> int:
    """Measure the GPUs with the engine's own Python, as an owner would."""
    with tempfile.TemporaryDirectory() as state:
        command = [sys.executable, "-m", "poolhouse_agent", "--state", state, "benchmark", "--only", "gpu"]
        status = subprocess.run([*command, *(["--short"] if is_short else [])], check=False).returncode
    return min(status, 1)


def _tests() -> int:
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu"]
    return min(subprocess.run(command, check=False).returncode, 1)


if __name__ == "__main__":
    sys.exit(main())
