"""`service`: the systemd units that keep the agent, its engines and its downloads running."""

import argparse
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from poolhouse_agent import terminal
from poolhouse_agent.commands import options
from poolhouse_agent.config import DEFAULT_STATE
from poolhouse_agent.errors import AgentError
from poolhouse_agent.state import State
from poolhouse_agent.units import render
from poolhouse_agent.units.render import AGENT, INSTANCES, SOCKETS, Place

_SYSTEMD = Path("/run/systemd/system")
_SYSTEM_UNITS = Path("/etc/systemd/system")
_USER = "poolhouse"
_WATCHER = "poolhouse-update.path"


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("service", help="the systemd units that run the agent and its engines")
    parser.add_argument("action", choices=("install", "start", "status", "uninstall", "show"))
    parser.add_argument("--user", action="store_true", help="in your own service manager instead of the machine's")
    parser.add_argument("--no-start", action="store_true", help="install only")
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do it. Raises AgentError."""
    manager = Manager(is_user=arguments.user)
    place = _place(arguments)
    match arguments.action:
        case "show":
            _show(place, as_json=arguments.json)
        case "status":
            return _status(manager, as_json=arguments.json)
        case "install":
            manager.require()
            _install(manager, place, starts=not arguments.no_start)
        case "start":
            manager.require()
            _start(manager)
        case _:
            manager.require()
            _uninstall(manager)
    return 0


class Manager:
    """systemd: the machine's, or a person's own."""

    def __init__(self, *, is_user: bool) -> None:
        self.is_user = is_user

    @property
    def folder(self) -> Path:
        """Where its units lie."""
        if not self.is_user:
            return _SYSTEM_UNITS
        home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        return Path(home) / "systemd" / "user"

    def require(self) -> None:
        """Raise AgentError unless it runs and may be changed."""
        if not _SYSTEMD.exists():
            raise AgentError("systemd_missing", "systemd does not run on this machine")
        if not self.is_user and os.geteuid() != 0:
            raise AgentError("not_root", "writing a system unit needs root")

    def call(self, *words: str) -> None:
        """Run systemctl. Raises AgentError."""
        call("systemctl", *(["--user"] if self.is_user else []), *words)

    def state(self, unit: str) -> str:
        """Return what systemd says of a unit; `no_systemd` where there is none."""
        if not _SYSTEMD.exists():
            return "no_systemd"
        argv = [tool("systemctl"), *(["--user"] if self.is_user else []), "is-active", unit]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603  fixed words
        return done.stdout.strip() or "unknown"


def _place(arguments: argparse.Namespace) -> Place:
    run_folder = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")) if arguments.user else Path("/run")
    return Place(arguments.config, arguments.state, is_user=arguments.user, user=_USER, run=run_folder)


def _show(place: Place, *, as_json: bool) -> None:
    units = render.unit_files(place, environ=os.environ)
    if as_json:
        terminal.say_json(units)
        return
    for name, text in units.items():
        terminal.say(f"## {name}\n{text}")


def _install(manager: Manager, place: Place, *, starts: bool) -> None:
    units = render.unit_files(place, environ=os.environ)
    if not manager.is_user:
        _require_user()
    State(place.state).create()
    if not manager.is_user:
        call("chown", "-hR", f"{_USER}:{_USER}", str(place.state))
    manager.folder.mkdir(parents=True, exist_ok=True)
    for name, text in units.items():
        (manager.folder / name).write_text(text, encoding="ascii")
    manager.call("daemon-reload")
    manager.call("enable", AGENT)
    if not manager.is_user:
        manager.call("enable", "--now", *SOCKETS)
    if _WATCHER in units:
        manager.call("enable", "poolhouse-update.service")
        manager.call("enable", "--now", _WATCHER)
    terminal.say(f"units installed in {manager.folder}")
    if starts:
        _start(manager)


def _start(manager: Manager) -> None:
    manager.call("restart", AGENT)
    scope = " --user" if manager.is_user else ""
    terminal.say(f"started; follow it with: journalctl{scope} -fu {Path(AGENT).stem}")


def _uninstall(manager: Manager) -> None:
    found = sorted(path.name for path in manager.folder.glob("poolhouse-*") if _is_ours(path))
    if found:
        manager.call("disable", "--now", *(name for name in found if "@" not in name))
        manager.call("stop", *INSTANCES)
    for name in found:
        (manager.folder / name).unlink()
    manager.call("daemon-reload")
    terminal.say("units removed; the state folder is left as it is")


def _is_ours(path: Path) -> bool:
    """A pool's own processes may run on the same machine under names that begin alike."""
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace").startswith("# Written by `poolhouse-")


def _status(manager: Manager, *, as_json: bool) -> int:
    state = manager.state(AGENT)
    unit = manager.folder / AGENT
    value = {"unit": str(unit), "is_installed": unit.exists(), "state": state}
    if as_json:
        terminal.say_json(value)
    else:
        terminal.table(list(value.items()))
    return 0 if state == "active" else 1


def _require_user() -> None:
    if any(entry.pw_name == _USER for entry in pwd.getpwall()):
        return
    call(
        "useradd",
        "--system",
        "--home-dir",
        str(DEFAULT_STATE),
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        _USER,
    )


def tool(name: str) -> str:
    """Return the path of a program. Raises AgentError."""
    found = shutil.which(name)
    if found is None:
        raise AgentError("systemd_missing", f"no program {name}")
    return found


def call(name: str, *arguments: str) -> None:
    """Run a program of the system. Raises AgentError."""
    argv = [tool(name), *arguments]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603  fixed words
    except subprocess.CalledProcessError as error:
        raise AgentError("service_failed", f"{name} {arguments[0]}: {error.stderr.strip()[:200]}") from None
