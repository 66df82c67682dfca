"""The import contracts hold, and they are the ones that catch something."""

import subprocess
import sys
from pathlib import Path

from tests.architecture import source

LINT = Path(sys.executable).parent / "lint-imports"


def test_the_contracts_hold() -> None:
    linted = subprocess.run([LINT, "--no-cache"], cwd=source.ROOT, capture_output=True, text=True, check=False)

    assert linted.returncode == 0, linted.stdout
