"""`service`: the systemd unit that keeps the agent running."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from poolhouse_agent import terminal
from poolhouse_agent.config import DEFAULT_CONFIG, DEFAULT_STATE
from poolhouse_agent.errors import AgentError, ConfigError

UNIT = Path("/etc/systemd/system/poolhouse-agent.service")
_SYSTEMD = Path("/run/systemd/system")
_TEMPLATE = """\
# Written by `poolhouse-agent service install`.
[Unit]
Description=Poolhouse agent: serves this machine's GPUs to a pool
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart={program} --config {config} --state {state} run
Environment=POOLHOUSE_VLLM={vllm} POOLHOUSE_NVML={nvml}
User=poolhouse
StateDirectory=poolhouse
StateDirectoryMode=0700
Restart=always
RestartSec=5
RestartPreventExitStatus=2
KillMode=control-group
TimeoutStopSec=150
LimitNOFILE=65536

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("service", help="the systemd service that runs the agent")
    parser.add_argument("action", choices=("install", "status", "uninstall", "show"))
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do it. Raises AgentError."""
    match arguments.action:
        case "show":
            terminal.say(unit_text(config=arguments.config, state=arguments.state, environ=dict(os.environ)))
            return 0
        case "status":
            return _status(as_json=arguments.json)
        case "install":
            _require_systemd()
            return _install(unit_text(config=arguments.config, state=arguments.state, environ=dict(os.environ)))
    _require_systemd()
    return _uninstall()


def unit_text(*, config: Path = DEFAULT_CONFIG, state: Path = DEFAULT_STATE, environ: dict[str, str]) -> str:
    """The unit file. Raises ConfigError for a path that a unit file cannot hold."""
    program = shutil.which("poolhouse-agent") or f"{sys.executable} -m poolhouse_agent"
    values = {
        "program": program,
        "config": str(config.absolute()),
        "state": str(state.absolute()),
        "vllm": environ.get("POOLHOUSE_VLLM", ""),
        "nvml": environ.get("POOLHOUSE_NVML", ""),
    }
    for name, value in values.items():
        if any(character in value for character in "\"'\\%\n\r$") or (name != "program" and " " in value):
            raise ConfigError("config_invalid", f"a unit file cannot hold the {name} {value!r}")
    text = _TEMPLATE.format(**values)
    return (
        text
        if state == DEFAULT_STATE
        else text.replace("StateDirectory=poolhouse", f"ReadWritePaths={state.absolute()}")
    )


def _install(text: str) -> int:
    if shutil.which("useradd") and not _has_user():
        _call("useradd", "--system", "--home-dir", str(DEFAULT_STATE), "--shell", "/usr/sbin/nologin", "poolhouse")
    UNIT.write_text(text, encoding="ascii")
    if DEFAULT_STATE.exists():
        _call("chown", "-R", "poolhouse:", str(DEFAULT_STATE))
    _call("systemctl", "daemon-reload")
    _call("systemctl", "enable", "--now", UNIT.name)
    terminal.say(f"{UNIT} installed and started; follow it with: journalctl -fu {UNIT.stem}")
    return 0


def _uninstall() -> int:
    _call("systemctl", "disable", "--now", UNIT.name)
    UNIT.unlink(missing_ok=True)
    _call("systemctl", "daemon-reload")
    terminal.say("service removed; the state folder is left as it is")
    return 0


def _status(*, as_json: bool) -> int:
    state = "no_systemd"
    if _SYSTEMD.exists():
        argv = [_tool("systemctl"), "is-active", UNIT.name]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603  fixed words
        state = result.stdout.strip() or "unknown"
    value = {"unit": str(UNIT), "is_installed": UNIT.exists(), "state": state}
    if as_json:
        terminal.say_json(value)
    else:
        terminal.table(list(value.items()))
    return 0 if state == "active" else 1


def _has_user() -> bool:
    import pwd

    return any(entry.pw_name == "poolhouse" for entry in pwd.getpwall())


def _require_systemd() -> None:
    if not _SYSTEMD.exists():
        raise AgentError("systemd_missing", "systemd does not run on this machine")
    if os.geteuid() != 0:
        raise AgentError("not_root", "writing a system unit needs root")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise AgentError("systemd_missing", f"no program {name}")
    return found


def _call(name: str, *arguments: str) -> None:
    argv = [_tool(name), *arguments]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)  # noqa: S603  fixed words
    except subprocess.CalledProcessError as error:
        raise AgentError("not_root", f"{name}: {error.stderr.strip()[:200]}") from None
