"""A machine with engines."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from poolhouse_agent.engine import notes, processes
from poolhouse_agent.state import State

from tests.agent.engine.machine import Machine


@pytest.fixture
def machine(state: State, tmp_path: Path) -> Iterator[Machine]:
    """With the versions 0.32.0, which works, and 0.33.0. No engine outlives the test, whatever fails in it."""
    yield Machine(state, tmp_path, "0.32.0", "0.33.0")
    for note in notes.all_notes(state.engines):
        processes.signal_one(note.host, signal.SIGINT, started=note.host_started)
