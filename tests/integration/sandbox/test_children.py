"""Children die with their parent, take their own children along, and can be started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from portal.sandbox import processes, waiting
from portal.sandbox.child import Child, ChildDied

ROOT = Path(__file__).parents[3]
SLEEP = "import time; time.sleep(60)"
PARENT_OF_ONE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]).wait()"


@pytest.fixture
def new_child(tmp_path: Path) -> Iterator[Callable[[str], Child]]:
    made: list[Child] = []

    def make(program: str) -> Child:
        child = Child(
            name="child", argv=[sys.executable, "-c", program], environ=dict(os.environ), log=tmp_path / "log"
        )
        made.append(child)
        child.start()
        return child

    yield make
    for child in made:
        child.stop()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def grandchildren(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def test_a_child_that_died_says_so_with_its_last_words(new_child: Callable[[str], Child]) -> None:
    child = new_child("import sys; print('out of luck'); sys.exit(3)")
    assert child.process is not None
    child.process.wait(10)

    with pytest.raises(ChildDied, match=r"child ended with 3.*\n.*out of luck"):
        child.require_alive()


def test_a_restarted_child_has_another_process(new_child: Callable[[str], Child]) -> None:
    child = new_child(SLEEP)
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    waiting.until("it is dead", lambda: child.pid is None, timeout_s=10)

    child.restart()

    assert child.pid not in {None, first}
    assert child.restarts == 1


def test_stopping_a_child_ends_its_whole_group(new_child: Callable[[str], Child]) -> None:
    child = new_child(PARENT_OF_ONE)
    pid = child.pid
    assert pid is not None
    waiting.until("the grandchild runs", lambda: bool(grandchildren(pid)), timeout_s=10)
    grandchild = grandchildren(pid)[0]

    child.stop()

    waiting.until("the grandchild is gone", lambda: not is_running(grandchild), timeout_s=10)


def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from portal.sandbox import processes\n"
        f"child = processes.start([sys.executable, '-c', {SLEEP!r}], log=Path({str(tmp_path / 'log')!r}))\n"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_running(child)

    parent.kill()
    parent.wait(10)
    parent.stdout.close()

    waiting.until("the child is gone", lambda: not is_running(child), timeout_s=10)


def test_a_stubborn_child_is_killed(new_child: Callable[[str], Child], tmp_path: Path) -> None:
    child = new_child(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True)\n" + SLEEP
    )
    waiting.until("it ignores the signal", lambda: b"on" in child.log.read_bytes(), timeout_s=10)
    child.stop_timeout_s = 0.3
    began = time.monotonic()

    child.stop()

    assert child.pid is None
    assert time.monotonic() - began < 5


def test_waiting_says_what_did_not_come() -> None:
    with pytest.raises(waiting.TookTooLong, match="the moon is blue: not after 0 s"):
        waiting.until("the moon is blue", Event().is_set, timeout_s=0.2)


def test_a_taken_port_is_named() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(processes.PortTaken, match=f"port {port} is taken: choose another"):
            processes.require_free(port, hint="choose another")
