"""`status`: what the running agent does, why it does not serve where it does not, and what to do."""

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from poolhouse_agent import status, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.owner import amounts
from poolhouse_agent.state import State

_MIB = 1 << 20

Status = Mapping[str, Any]


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("status", help="what the running agent does")
    options.add_json(parser, schema="agent-status.json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it: 0 while all is as its owner wants it, 1 when something is wrong. Raises ConfigError."""
    state = State(arguments.state)
    membership = state.membership()
    if membership is None:
        raise ConfigError("not_joined", f"{state.folder} knows of no pool")
    found = status.gather(state, membership, now=datetime.now(UTC))
    if arguments.json:
        terminal.say_json(found)
    else:
        for line in lines(found):
            terminal.say(line)
    return 0 if found["is_well"] else 1


def lines(found: Status) -> list[str]:
    """Return what people read."""
    is_up = found["is_running"]
    running = terminal.coloured("running", "ok") if is_up else terminal.coloured("not running", "fail")
    said = [f"{found['name'] or found['node']} ({found['node']}) of {found['server']}: {running}"]
    if is_up and found["code"] != "agent_silent":
        said += [*_standing(found), *_owner(found.get("owner", {})), *_gpus(found), *_deployments(found)]
    if found["code"]:
        detail = (
            found.get("portal", {}).get("detail", "") if found["code"] == found.get("portal", {}).get("code") else ""
        )
        said += [f"{found['code']}: {detail or found['cause']}", f"  fix: {found['fix']}"]
    return said


def _standing(found: Status) -> list[str]:
    state, tunnel = found.get("node_state") or "not heard yet", found.get("tunnel", "disconnected")
    return [f"  pool says   {state}", f"  tunnel      {tunnel}", f"  agent       {found.get('agent_version', '')}"]


def _owner(owner: Status) -> list[str]:
    said = [f"  owner       {_action(owner)}"]
    if owner.get("power_cap_w"):
        said.append(f"  power cap   {owner['power_cap_w']} W a GPU")
    for limit in owner.get("power", ()):
        if limit["code"]:
            said += [f"    {limit['gpu'] or 'GPUs'}: {limit['code']}: {limit['detail']}", f"      fix: {limit['fix']}"]
    downloads = owner.get("downloads", {})
    for name in ("day", "month"):
        if downloads.get(f"{name}_limit_bytes") is not None:
            spent, limit = downloads[f"{name}_bytes"] or 0, downloads[f"{name}_limit_bytes"]
            said.append(f"  downloads   {amounts.size_text(spent)} of {amounts.size_text(limit)} this {name}")
    return said


def _action(owner: Status) -> str:
    until = f" until {owner['until']}" if owner.get("until") else ""
    if owner.get("action") == "serve":
        return f"serves, rests at {owner['rests_at']}" if owner.get("rests_at") else "serves"
    why = f" ({owner['detail']})" if owner.get("detail") else ""
    return f"{'drains' if owner.get('action') == 'drain' else 'rests'}{until}: {owner.get('code', '')}{why}"


def _gpus(found: Status) -> list[str]:
    said = []
    for gpu in found.get("gpus", ()):
        values = gpu.get("values", {})
        heat = f"{values['temperature_c']} °C" if "temperature_c" in values else "? °C"
        watts = f"{values['power_mw'] // 1000} W" if "power_mw" in values else "? W"
        memory = f"{gpu['memory_bytes'] // _MIB} MiB" if gpu.get("memory_bytes") else "? MiB"
        said.append(f"  GPU {gpu.get('index', '?')}       {gpu.get('name', '')}, {memory}, {heat}, {watts}")
    said += [f"  GPU trouble {one.get('code', '')}: {one.get('detail', '')}" for one in found.get("gpu_errors", ())]
    return said


def _deployments(found: Status) -> list[str]:
    said = []
    for one in found.get("deployments", ()):
        said.append(
            f"  model       {one['model']}: {one['state']}, {one['running']} of {one['max_concurrency']} requests"
        )
        if one["code"]:
            said += [f"    {one['code']}: {one['detail']}", f"      fix: {one['fix']}"]
    return said
