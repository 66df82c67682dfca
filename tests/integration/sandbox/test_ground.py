"""A folder has one demo at a time, its secrets are for its owner alone, and a killed run's processes are ended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from portal.sandbox.ground import AlreadyRunning, Ground

ROOT = Path(__file__).parents[3]


def test_a_second_demo_in_the_folder_is_refused(tmp_path: Path) -> None:
    first = Ground(tmp_path)
    first.claim()
    first.record_running(os.getpid(), {})

    with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"):
        Ground(tmp_path).claim()

    first.release()
    again = Ground(tmp_path)
    again.claim()
    again.release()


def test_the_folder_says_whether_a_demo_runs_in_it(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    assert not Ground(tmp_path).is_claimed()

    ground.claim()
    assert Ground(tmp_path).is_claimed()

    ground.release()
    assert not Ground(tmp_path).is_claimed()


def test_what_a_killed_run_left_is_ended(tmp_path: Path) -> None:
    leftover = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    ground = Ground(tmp_path)
    ground.folder.mkdir(exist_ok=True)
    ground.record_running(1, {"portal": leftover.pid})

    ground.claim()

    assert leftover.wait(10) == -9
    ground.release()


def test_a_stranger_with_the_same_process_id_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    ground = Ground(tmp_path)
    ground.write("run", {"supervisor": 1, "processes": {str(stranger.pid): 12.0}})

    ground.claim()

    assert stranger.poll() is None
    ground.release()
    stranger.kill()
    stranger.wait(10)


def test_secrets_last_and_are_for_the_owner_alone(tmp_path: Path) -> None:
    made = Ground(tmp_path).secrets()

    assert Ground(tmp_path).secrets() == made
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert made["STRIPE_API_KEY"].startswith("sk_test_")


def test_ports_last_and_differ(tmp_path: Path) -> None:
    ports = Ground(tmp_path).ports()

    assert len(set(ports.values())) == len(ports)
    assert Ground(tmp_path).ports() == ports
