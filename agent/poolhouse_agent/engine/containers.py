"""vLLM in a container of Docker or Podman: the owner's image, the weights read-only, no network but the port."""

import asyncio
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent import children
from poolhouse_agent.config import Container
from poolhouse_agent.engine import vllm_log
from poolhouse_agent.engine.process import Command
from poolhouse_agent.errors import EngineError

NETWORK = "poolhouse-engines"
ID_FILE = "container.id"  # by it the owner's own processes are told from the engine's, which are not ours by descent
_DRIVER = "bridge"
_PIDS = "8192"
_ANSWER_S = 60.0
_OF_THE_TOOL = frozenset({"PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "XDG_RUNTIME_DIR"})
_SHARED_MEMORY = "8g"  # tensors travel between vLLM's workers in it


@dataclass(frozen=True, slots=True)
class Around:
    """What a container is given of this machine."""

    container: Container
    folder: Path
    weights: Path
    port: int
    uuids: Sequence[str]


def contained(command: Command, around: Around) -> Command:
    """Return the command that runs `command` in a container. Raises EngineError."""
    tool, image = around.container.tool, around.container.image
    if "@sha256:" not in image:
        raise EngineError("config_invalid", "[engine] image must name an image by its digest (…@sha256:…)")
    name = f"poolhouse-{around.folder.name}-{secrets.token_hex(4)}"
    home = command.environ["HOME"]
    passed = set(command.environ) - _OF_THE_TOOL
    id_file = around.folder / ID_FILE
    id_file.unlink(missing_ok=True)
    argv = [
        tool, "run", "--rm", "--init", "--name", name, "--label", "poolhouse.engine=1", "--cidfile", str(id_file),
        "--network", NETWORK, "--publish", f"127.0.0.1:{around.port}:{around.port}",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", _PIDS,
        "--shm-size", _SHARED_MEMORY, "--pull", "never", "--entrypoint", "vllm",
        "--volume", f"{around.weights}:{around.weights}:ro", "--volume", f"{home}:{home}",
        *_gpus(tool, around.uuids),
        *(word for key in sorted(passed) for word in ("--env", key)),  # the values stay out of the list of arguments
        "--env", f"HOME={home}", image, *_inside(command.argv[1:]),
    ]  # fmt: skip
    return Command(argv, _for_the_tool(command), command.grace_s, cleanup=[tool, "rm", "--force", name])


def _for_the_tool(command: Command) -> dict[str, str]:
    """The environment of docker or podman: its own home and runtime folder, and the values it passes on."""
    own = {name: os.environ[name] for name in _OF_THE_TOOL if name in os.environ}
    return {**command.environ, **own}


def _gpus(tool: str, uuids: Sequence[str]) -> list[str]:
    if not uuids:
        return []
    if Path(tool).name == "podman":
        return [word for uuid in uuids for word in ("--device", f"nvidia.com/gpu={uuid}")]
    return ["--gpus", f'"device={",".join(uuids)}"']


def _inside(arguments: Sequence[str]) -> list[str]:
    """In its own network the engine listens on all of it; outside only loopback's port leads there."""
    changed = list(arguments)
    changed[changed.index("--host") + 1] = "0.0.0.0"  # noqa: S104  within the container
    return changed


async def require_usable(container: Container) -> None:
    """Require the tool and the image, and make the network of engines where it is not there yet. Raises EngineError."""
    if shutil.which(container.tool) is None:
        raise EngineError("container_failed", f"no program {container.tool}")
    status, said = await _run(container.tool, "image", "inspect", "--format", "{{.Id}}", container.image)
    if status:
        known = vllm_log.classify(said, fallback=EngineError("container_image_missing", container.image))
        raise EngineError(known.code, known.detail)
    if (await _run(container.tool, "network", "inspect", NETWORK))[0]:
        status, said = await _run(*_network_command(container.tool))
        if status:
            raise EngineError("container_failed", said[-300:])


async def _run(*argv: str) -> tuple[int, str]:
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise EngineError("container_failed", f"{argv[0]} cannot be started: {error.strerror}") from None
    said = await children.answer(child, deadline_s=_ANSWER_S)
    if said is None:
        raise EngineError("container_failed", f"{argv[0]} {argv[1]} did not answer within {_ANSWER_S:.0f} s")
    return child.returncode or 0, said.decode("utf-8", "replace").strip()


def _network_command(tool: str) -> list[str]:
    """Without masquerading nothing in the network reaches the world, and no engine sees another."""
    return [
        tool, "network", "create", "--driver", _DRIVER,
        "--opt", "com.docker.network.bridge.enable_ip_masquerade=false",
        "--opt", "com.docker.network.bridge.enable_icc=false", NETWORK,
    ]  # fmt: skip
