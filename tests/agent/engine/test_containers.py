"""vLLM in a container: what the container tool is told, and that no container is left. The tool is a stand-in."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from poolhouse_agent.config import Config, Container
from poolhouse_agent.engine import containers
from poolhouse_agent.engine.containers import Around
from poolhouse_agent.engine.process import Command
from poolhouse_agent.errors import EngineError
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.agent.engine.machine import SHORT, Machine, is_alive
from tests.fakes.container_tool import Daemon
from tests.fakes.pool import Pool
from tests.fakes.vllm import program

IMAGE = "vllm/vllm-openai@sha256:" + "0" * 64


def started(folder: Path, *images: str) -> Daemon:
    """A daemon with a vLLM in its images. A socket's path is short: pytest's folders are not."""
    folder.mkdir()
    program.write(folder)
    door = Path(tempfile.mkdtemp(prefix="ph-test-")) / "docker.sock"
    return Daemon(folder, door, *images)


def configured(machine: Machine, docker: Daemon) -> Config:
    return replace(machine.config, container=Container(str(docker.tool), IMAGE))


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Daemon]:
    made = started(tmp_path / "docker", IMAGE)
    yield made
    made.close()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Daemon]:
    made = started(tmp_path / "docker")
    yield made
    made.close()


async def test_an_engine_serves_from_a_container_and_leaves_none(
    pool: Pool, state: State, machine: Machine, docker: Daemon
) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=configured(machine, docker)):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        answer = await tunnel.ask(SHORT)
        (container,) = docker.containers.values()

    run = next(call for call in docker.calls if call["argv"][0] == "run")
    network = next(call["argv"] for call in docker.calls if call["argv"][:2] == ["network", "create"])
    words = run["argv"]
    assert answer.failure is None
    assert "com.docker.network.bridge.enable_ip_masquerade=false" in network
    assert words[words.index("--network") + 1] == containers.NETWORK
    assert words[words.index("--publish") + 1].startswith("127.0.0.1:")
    assert f"{machine.weights}:{machine.weights}:ro" in words
    assert words[words.index("--cap-drop") + 1] == "ALL"
    assert run["environ"]["VLLM_API_KEY"] not in " ".join(words)
    assert not is_alive(container.pid)
    assert not is_alive(int((docker.folder / "worker").read_text(encoding="ascii")))


async def test_a_container_that_outlives_its_command_is_removed(
    pool: Pool, state: State, machine: Machine, docker: Daemon
) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=configured(machine, docker)):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        (first,) = docker.containers.values()
        os.kill(machine.note()["pid"], signal.SIGKILL)
        await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] == "failed")
        await tunnel.until_ready()
        async with asyncio.timeout(10):
            while is_alive(first.pid):
                await asyncio.sleep(0.02)
        answer = await tunnel.ask(SHORT)

    assert answer.failure is None
    assert any(call["argv"][:2] == ["rm", "--force"] for call in docker.calls)


async def test_an_image_that_is_not_there_is_named_and_not_fetched(
    pool: Pool, state: State, machine: Machine, bare: Daemon
) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    async with running_agent(state, config=configured(machine, bare)):
        beat = await pool.heartbeat(lambda beat: beat["deployments"] and beat["deployments"][0]["state"] == "failed")

    assert beat["deployments"][0]["code"] == "container_image_missing"
    assert not any(call["argv"][0] in {"run", "pull"} for call in bare.calls)


async def test_a_tool_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    tool = tmp_path / "docker"
    tool.write_text("#!/no/such/interpreter\n", encoding="ascii")
    tool.chmod(0o755)

    with pytest.raises(EngineError) as refused:
        await containers.require_usable(Container(str(tool), IMAGE))

    assert (refused.value.code, refused.value.detail) == (
        "container_failed", f"{tool} cannot be started: No such file or directory",
    )  # fmt: skip


def around(tool: str, image: str = IMAGE) -> Around:
    return Around(Container(tool, image), Path("/s/engines/dep_1"), Path("/w"), 5001, ("GPU-aaaa", "GPU-bbbb"))


COMMAND = Command(["vllm", "serve", "/w", "--host", "127.0.0.1"], {"HOME": "/h", "VLLM_API_KEY": "k"}, 70.0)


def test_docker_is_given_gpus_by_uuid() -> None:
    words = containers.contained(COMMAND, around("docker")).argv

    assert words[list(words).index("--gpus") + 1] == '"device=GPU-aaaa,GPU-bbbb"'
    assert list(words[-4:]) == ["serve", "/w", "--host", "0.0.0.0"]  # noqa: S104  within the container


def test_podman_is_given_them_as_devices() -> None:
    words = list(containers.contained(COMMAND, around("/usr/bin/podman")).argv)

    assert [word for word in words if word.startswith("nvidia.com")] == [
        "nvidia.com/gpu=GPU-aaaa",
        "nvidia.com/gpu=GPU-bbbb",
    ]


def test_an_image_by_its_tag_alone_is_refused() -> None:
    with pytest.raises(EngineError) as refused:
        containers.contained(COMMAND, around("docker", "vllm/vllm-openai:latest"))

    assert refused.value.code == "config_invalid"
