"""The installer: checks what it fetches, can be run again, joins by one command, and takes away what it made."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.updates.world import PUBLIC_KEY, Made, Portal, wheel

SCRIPT = Path(__file__).parents[2] / "agent" / "install.sh"
RELEASE = Made("0.2.0", wheel=wheel("0.2.0"))


class Machine:
    """A machine to install on, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix, self.state, self.binaries = folder / "prefix", folder / "state", folder / "bin"
        self.binaries.mkdir()
        self.command = self.binaries / "poolhouse-agent"
        self.environ = {
            **os.environ, "HOME": str(folder), "POOLHOUSE_STATE": str(self.state), "POOLHOUSE_BIN": str(self.binaries),
            "POOLHOUSE_CONFIG": str(folder / "agent.toml"), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        }  # fmt: skip

    def run(
        self, *words: str, script: Path = SCRIPT, token: str | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        argv = ["sh", str(script), "--prefix", str(self.prefix), *words]
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=110, env={**self.environ, **environ},
            input=f"{token}\n" if token else "",
        )  # fmt: skip

    def everything(self) -> set[str]:
        return {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*")}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "machine"
    home.mkdir()
    return Machine(home)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The venvs of one real installation; making one takes seconds."""
    folder = tmp_path_factory.mktemp("built")
    RELEASE.write(folder / "release")
    made = Machine(folder)
    done = made.run("--from", str(folder / "release"))
    assert done.returncode == 0, done.stderr
    return made.prefix / "versions"


@pytest.fixture
def prepared(machine: Machine, built: Path) -> Machine:
    """A machine on which an earlier run got as far as the venv."""
    prepare(machine.prefix, built)
    return machine


def prepare(prefix: Path, built: Path) -> None:
    shutil.copytree(built, prefix / "versions", symlinks=True)
    (prefix / ".made").touch()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    RELEASE.write(tmp_path / "release")
    return tmp_path / "release"


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[Portal]:
    made = Portal(tmp_path / "portal")
    made.offer(RELEASE)
    yield made
    made.close()


def filled(portal: Portal, folder: Path, **changed: str) -> Path:
    """The script as a portal serves it."""
    values = {
        "server": portal.url, "version": "0.2.0", "wheel": RELEASE.wheel_name, "release_key": PUBLIC_KEY,
        **RELEASE.described(), **changed,
    }  # fmt: skip
    text = SCRIPT.read_text(encoding="utf-8")
    for name, value in values.items():
        assert f"\n{name}=''\n" in text
        text = text.replace(f"\n{name}=''\n", f"\n{name}='{value}'\n")
    served = folder / "install.sh"
    served.write_text(text, encoding="utf-8")
    return served


def test_install_again_and_uninstall_leave_the_machine_as_it_was(machine: Machine, release: Path, built: Path) -> None:
    before = machine.everything()
    prepare(machine.prefix, built)

    first = machine.run("--from", str(release))
    venv = machine.prefix / "current"
    stamp = (venv / ".complete").stat().st_mtime_ns
    again = machine.run("--from", str(release))

    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    assert "0.2.0 is already there" in again.stderr
    assert (venv / ".complete").stat().st_mtime_ns == stamp
    said = subprocess.run([str(machine.command), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == "poolhouse-agent 0.2.0\n"

    removed = machine.run("--uninstall")
    assert removed.returncode == 0, removed.stderr
    assert machine.everything() == before


def test_what_a_portal_serves_is_checked_and_its_key_is_pinned(
    prepared: Machine, portal: Portal, tmp_path: Path
) -> None:
    done = prepared.run(script=filled(portal, tmp_path))

    assert done.returncode == 0, done.stderr
    assert f'"public_key": "{PUBLIC_KEY}"' in (prepared.prefix / "release.json").read_text(encoding="ascii")
    assert f'"server": "{portal.url}"' in (prepared.prefix / "release.json").read_text(encoding="ascii")

    other = prepared.run(script=filled(portal, tmp_path, release_key="another"))
    assert other.returncode == 1
    assert "release key is not the pinned one" in other.stderr
    assert PUBLIC_KEY in (prepared.prefix / "release.json").read_text(encoding="ascii")

    none = prepared.run(script=filled(portal, tmp_path, release_key=""))
    assert none.returncode == 1
    assert f"--release-key '{PUBLIC_KEY}'" in none.stderr
    kept = prepared.run("--release-key", PUBLIC_KEY, script=filled(portal, tmp_path, release_key=""))
    assert kept.returncode == 0, kept.stderr
    assert PUBLIC_KEY in (prepared.prefix / "release.json").read_text(encoding="ascii")


@pytest.mark.parametrize("name", [RELEASE.wheel_name, "requirements.txt"])
def test_a_file_that_was_changed_on_the_way_installs_nothing(
    machine: Machine, portal: Portal, tmp_path: Path, name: str
) -> None:
    (portal.folder / "agent" / "v1" / "releases" / "0.2.0" / name).write_bytes(b"evil")

    done = machine.run(script=filled(portal, tmp_path))

    assert done.returncode == 1
    assert "SHA-256 differs" in done.stderr
    assert not machine.prefix.exists()
    assert not list(machine.binaries.iterdir())


def test_a_release_whose_program_does_not_start_installs_nothing(machine: Machine, tmp_path: Path) -> None:
    broken = Made("0.2.0", wheel=wheel("0.2.0", program="this is no Python"))
    broken.write(tmp_path / "broken")

    done = machine.run("--from", str(tmp_path / "broken"))

    assert done.returncode == 1
    assert "does not start" in done.stderr
    assert not machine.prefix.exists()


def test_a_portal_elsewhere_without_tls_is_refused(machine: Machine, portal: Portal, tmp_path: Path) -> None:
    done = machine.run(script=filled(portal, tmp_path, server="http://pool.example"))

    assert done.returncode == 1
    assert "is not https" in done.stderr


def test_one_command_joins_with_a_token_that_no_process_list_shows(
    prepared: Machine, portal: Portal, tmp_path: Path
) -> None:
    served = filled(portal, tmp_path)

    done = prepared.run("--join", "--simulate", "rtx4090x2", "--name", "rack4", script=served, token="ph-enrol-secret")

    assert done.returncode == 0, done.stderr
    joined = (prepared.state / "joined").read_text(encoding="utf-8").splitlines()
    assert joined[0] == "ph-enrol-secret"
    assert joined[1].endswith(f"join --server {portal.url} --token-file - --name rack4 --simulate rtx4090x2")
    assert "ph-enrol-secret" not in done.stdout + done.stderr + joined[1]

    again = prepared.run("--join", script=served, token="ph-enrol-secret")
    assert "has joined already" in again.stderr
    kept = prepared.run("--uninstall")
    assert "still a node of its pool" in kept.stderr
    assert prepared.state.exists()
    assert not prepared.prefix.exists()


def test_doctor_comes_before_joining_and_may_stop_it(prepared: Machine, portal: Portal, tmp_path: Path) -> None:
    prepared.state.mkdir()
    (prepared.state / "is-0.2.0").write_text("ailing", encoding="ascii")

    done = prepared.run("--join", script=filled(portal, tmp_path), token="ph-enrol-secret")

    assert done.returncode == 1
    assert "nothing was joined" in done.stderr
    assert not (prepared.state / "joined").exists()


def test_a_machine_without_python_is_told_what_to_do(machine: Machine, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("dirname", "cat", "sh"):
        (tools / tool).symlink_to(f"/usr/bin/{tool}")

    done = machine.run(PATH=str(tools))

    assert done.returncode == 2
    assert "Python 3.11 or newer" in done.stderr
    assert not machine.prefix.exists()


def test_a_folder_that_is_something_else_is_left_alone(machine: Machine, release: Path) -> None:
    machine.prefix.mkdir()
    (machine.prefix / "precious").write_text("x", encoding="ascii")

    installed, removed = machine.run("--from", str(release)), machine.run("--uninstall")

    assert (installed.returncode, removed.returncode) == (2, 2)
    assert (machine.prefix / "precious").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--frobnicate"], "unknown argument"), (["--name"], "needs a value"), ([], "names no release"),
        (["--from", "/nowhere"], "holds no release"), (["--prefix", "/x y"], "paths may hold"),
        (["--join"], "none came"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said(machine: Machine, words: list[str], said: str) -> None:
    done = machine.run(*words)

    assert done.returncode == 2
    assert said in done.stderr
    assert not machine.prefix.exists()


def test_for_one_person_everything_lies_below_the_home_folder(machine: Machine, release: Path, built: Path) -> None:
    home = machine.folder
    environ = {"XDG_DATA_HOME": "", "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "", "POOLHOUSE_BIN": ""}
    before = machine.everything()
    prepare(home / ".local" / "share" / "poolhouse-agent", built)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = ["sh", str(SCRIPT), "--user", "--no-service", *words]
        environment = {**machine.environ, **environ}
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=110, env=environment)

    done = run("--from", str(release))

    assert done.returncode == 0, done.stderr
    wrapper = (home / ".local" / "bin" / "poolhouse-agent").read_text(encoding="ascii")
    assert f'--config "{home}/.config/poolhouse/agent.toml" --state "{home}/.local/state/poolhouse"' in wrapper

    assert run("--uninstall").returncode == 0
    made = {name for name in machine.everything() - before if not (home / name).is_dir()}
    assert made == set()
