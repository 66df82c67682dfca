"""The demo's commands, in processes of their own: once to the payout, and broken in every part."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.sandbox import processes, waiting

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

ROOT = Path(__file__).parents[2]
FIELDS = {
    "requests", "prompt_tokens", "completion_tokens", "charged_nano", "provider_earned_nano", "platform_nano",
    "payout_minor", "payout_state", "stripe_transfer", "ledger_differences",
}  # fmt: skip


def command(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A demo that stays up while the module's tests break it."""
    home = tmp_path_factory.mktemp("demo") / "state"
    log = home.parent / "demo.log"
    arguments = command("demo", "--port", str(processes.free_port()), "--folder", str(home))
    with log.open("w") as output:
        demo = subprocess.Popen(arguments, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    def check() -> None:
        assert demo.poll() is None, log.read_text()

    waiting.until("the demo is up", lambda: "Running as process" in log.read_text(), timeout_s=240, check=check)
    yield home
    demo.send_signal(signal.SIGINT)
    assert demo.wait(60) == 130, log.read_text()


def test_once_pays_the_provider_and_says_so_in_one_line() -> None:
    done = run("demo", "--once", "--port", str(processes.free_port()))

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) == FIELDS
    assert (result["requests"], result["payout_state"], result["ledger_differences"]) == (2, "transferred", 0)
    assert result["charged_nano"] == result["provider_earned_nano"] + result["platform_nano"]
    assert result["charged_nano"] >= 2 * 10**9
    assert result["payout_minor"] == result["provider_earned_nano"] // 10**7
    assert result["stripe_transfer"].startswith("tr_")


def test_an_engine_that_does_not_answer_is_named() -> None:
    done = run("demo", "--once", "--engine-url", f"http://127.0.0.1:{processes.free_port()}")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "does not answer like an OpenAI-compatible server" in done.stderr


def test_there_is_nothing_to_break_without_a_demo(tmp_path: Path) -> None:
    done = run("demo_break", "gateway", "--folder", str(tmp_path))

    assert done.returncode == 1
    assert "no demo runs here" in done.stderr


@pytest.mark.parametrize("part", ["gateway", "node", "worker", "stripe", "postgres"])
def test_nothing_is_lost_when_a_part_dies_under_streams(folder: Path, part: str) -> None:
    done = run("demo_break", part, "--folder", str(folder))

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    audit = report["audit"]
    assert (audit["lost"], audit["doubled"], audit["unbooked"], audit["ledger_differences"]) == ([], [], [], 0)
    assert sum(report["streams"].values()) == 20
    assert audit["charged_nano"] == audit["provider_nano"] + audit["platform_nano"]
    if part in {"worker", "stripe"} and audit["payout"]:
        assert (audit["payout"]["state"], audit["payout"]["transfers"]) == ("transferred", 1)


def test_a_second_demo_in_the_same_folder_is_refused(folder: Path) -> None:
    done = run("demo", "--port", str(processes.free_port()), "--folder", str(folder))

    assert done.returncode == 1
    assert "a demo already runs in" in done.stderr
