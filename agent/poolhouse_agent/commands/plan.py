"""`plan`: does a model fit this machine's GPUs, or those named, and what fits instead. Needs no membership."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from poolhouse_common import artefacts, gpu_faults, planner
from poolhouse_common.planner import report

from poolhouse_agent import config, logs, terminal
from poolhouse_agent.commands import options
from poolhouse_agent.errors import AgentError, ConfigError
from poolhouse_agent.nvml.inventory import GpuReport, Inventory
from poolhouse_agent.state import State

_CACHES = ("auto", "fp8")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("plan", help="does a model fit these GPUs, and what would")
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a model's folder, its config.json, or a name under [models] in the configuration",
    )
    parser.add_argument("--context", type=_positive, default=0, metavar="N", help="tokens of a request (the model's)")
    parser.add_argument("--concurrency", type=_positive, default=1, metavar="N", help="requests at once (1)")
    parser.add_argument("--gpus", default="", metavar="GPUS", help='other GPUs than this machine\'s: "3 x 4090"')
    parser.add_argument("--tensor-parallel", type=_positive, default=0, metavar="N", help="GPUs to spread over")
    parser.add_argument("--kv-cache-dtype", choices=_CACHES, default="auto", help="the cache's number format")
    parser.add_argument("--quantization", default="", metavar="NAME", help="another release: fp8, awq, gptq")
    parser.add_argument("--digest", action="store_true", help="print the digest of the folder, for the catalogue")
    options.add_json(parser, schema="plan.json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan: 0 where it fits, 1 where it does not. Raises AgentError where none can be made."""
    logs.keep_off_terminal()
    settings = config.load(arguments.config, environ=os.environ)
    named = settings.models.get(arguments.model)
    folder = named.path if named else Path(arguments.model)
    try:
        shape = _shape(folder, arguments.quantization)
        found = GpuReport() if arguments.gpus else asyncio.run(_report(State(arguments.state), settings))
        gpus = planner.parse_gpus(arguments.gpus) if arguments.gpus else _present(found)
        wish = planner.Wish(
            context=arguments.context, concurrency=arguments.concurrency, tensor_parallel=arguments.tensor_parallel,
            kv_dtype=arguments.kv_cache_dtype, utilization=settings.gpu_memory_utilization,
        )  # fmt: skip
        answer = planner.plan(shape=shape, gpus=gpus, wish=wish)
    except planner.PlanError as error:
        raise AgentError(error.code, error.detail) from error
    suggestions = planner.suggest(answer, gpus=gpus, wish=wish)
    digest, notes = _digest(folder) if arguments.digest else "", _notes(found, settings.gpu_memory_utilization)
    if arguments.json:
        more = {**({"notes": notes} if notes else {}), **({"digest": digest} if digest else {})}
        terminal.say_json({**report.as_json(answer, suggestions), **more})
    else:
        _print(answer, suggestions)
        for note in notes:
            terminal.say(f"{terminal.coloured('note', 'warn')}: {note['detail']} [{note['code']}]")
        if digest:
            terminal.say(f"digest of the folder: {digest}")
    return 0 if answer.fits else 1


def _notes(found: GpuReport, utilization: float) -> list[dict[str, str]]:
    """What keeps an engine from starting though the plan fits: its share of a GPU must be free then."""
    notes = []
    for gpu in found.gpus:
        total, used = gpu.get("memory_bytes") or 0, gpu.get("values", {}).get("memory_used_bytes") or 0
        if used > total * (1 - utilization):
            share = f"{total * utilization / planner.GIB:.2f}"
            detail = f"{used / planner.GIB:.2f} GiB of {gpu['uuid']} are in use; an engine wants {share} GiB free"
            notes.append({"code": "gpu_memory_in_use", "detail": detail})
    return notes


def _print(answer: planner.Plan, suggestions: Sequence[planner.Suggestion]) -> None:
    terminal.say(terminal.coloured(report.verdict(answer), "ok" if answer.fits else "fail"))
    terminal.say(report.model_line(answer.shape))
    terminal.say("memory of one GPU, GiB:")
    terminal.table([(name, f"{size:>7}", word) for name, size, word in report.budget_rows(answer)])
    if reach := report.limits(answer):
        terminal.say(reach)
    for code, detail, fix in report.reason_lines(answer):
        terminal.say(f"{terminal.coloured('why', 'fail')}: {detail} [{code}]")
        terminal.say(f"  fix: {fix}")
    if suggestions:
        terminal.say("what fits instead:")
        terminal.table([("-", line) for line in report.suggestion_lines(suggestions)])


def _shape(path: Path, quantization: str) -> planner.ModelShape:
    file = path / "config.json" if path.is_dir() else path
    try:
        with file.open("rb") as handle:
            content = handle.read(planner.MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError("model_config_missing", f"{file}: {error.strerror}") from error
    shape = planner.read_shape(config=planner.parse_config(content), weight_bytes=_weight_bytes(path))
    return planner.requantized(shape, quantization) if quantization else shape


def _weight_bytes(path: Path) -> int:
    """The size of a folder's weights, 0 where only the config is there."""
    if not path.is_dir():
        return 0
    index = path / "model.safetensors.index.json"
    try:
        if index.is_file():
            return int(json.loads(index.read_bytes())["metadata"]["total_size"])
        return sum(file.stat().st_size for file in path.glob("*.safetensors"))
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _present(found: GpuReport) -> list[planner.Gpu]:
    unfit = {str(error["detail"]) for error in found.errors if error["code"] in gpu_faults.UNFIT}
    gpus = [gpu for gpu in found.gpus if str(gpu["uuid"]) not in unfit and gpu.get("memory_bytes")]
    if not gpus:
        why = next((str(error["code"]) for error in found.errors), "no_gpu")
        raise AgentError(why, 'this machine has no GPU to plan for; name others with --gpus "2 x RTX 3090"')
    return [
        planner.Gpu(str(gpu["name"]), int(gpu["memory_bytes"]), str(gpu.get("compute_capability", ""))) for gpu in gpus
    ]


async def _report(state: State, settings: config.Config) -> GpuReport:
    membership = state.membership() if state.folder.exists() else None
    if membership is None or not membership.simulate:
        return await Inventory(library=settings.nvml).read()
    from poolhouse_agent.simulate import inventory, profile

    return inventory.SimulatedInventory(profile.parse(membership.simulate).gpus, node=membership.node).latest


def _digest(folder: Path) -> str:
    if not folder.is_dir():
        raise ConfigError("model_config_missing", f"{folder} is no folder, which a digest is of")
    if sys.stderr.isatty():
        terminal.note("reading every file of the folder …")
    try:
        return artefacts.folder_digest(folder)
    except OSError as error:
        raise ConfigError("model_config_missing", f"{folder}: {error.strerror}") from error


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no whole number above 0")
    return int(text)
