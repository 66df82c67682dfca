"""A machine with engines."""

from pathlib import Path

import pytest
from poolhouse_agent.state import State

from tests.agent.engine.machine import Machine


@pytest.fixture
def machine(state: State, tmp_path: Path) -> Machine:
    """With the versions 0.32.0, which works, and 0.33.0."""
    return Machine(state, tmp_path, "0.32.0", "0.33.0")
