"""The agent's half of the golden messages: it sends what they hold and reads what they answer."""

import base64
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from poolhouse_agent.checks.result import measured
from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import PortalError
from poolhouse_agent.identity import Identity
from poolhouse_agent.owner.standing import Action, Standing
from poolhouse_agent.protocol import frames, messages, rounds
from poolhouse_agent.protocol.frames import FrameType
from poolhouse_agent.protocol.messages import DeploymentReport
from poolhouse_agent.rounds.keeper import told

GOLDEN = Path(__file__).parent / "agent_protocol" / "v1"
ROOT = Path(__file__).parents[2]


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def key_of(text: str) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(base64.b64decode(text)))


async def answered(name: str) -> Any:
    """Post a golden's request to a server that gives the golden's answer; check that it is what was posted."""
    exchange = golden(name)
    wanted = exchange["request"]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == wanted["path"]
        assert request.headers.get("authorization", "") == wanted["authorization"]
        assert json.loads(request.content) == wanted["body"]
        return httpx.Response(exchange["response"]["status"], json=exchange["response"]["body"])

    bearer = wanted["authorization"].removeprefix("Bearer ") or None
    async with PortalClient("https://pool.example", transport=httpx.MockTransport(answer)) as client:
        return await client.post(wanted["path"], wanted["body"], bearer=bearer)


@pytest.mark.parametrize("name", ["enrol_new", "enrol_retry"])
async def test_an_enrolment_is_sent_and_its_answer_read(name: str) -> None:
    body = golden(name)["request"]["body"]
    made = messages.enrol_body(public_key=body["public_key"], name=body["name"], is_simulated=False, host=body["host"])

    enrolled = messages.read_enrolled(await answered(name))

    assert made == body
    assert (enrolled.node, enrolled.heartbeat_s) == ("node_0123456789abcdefghjk", 15)


async def test_the_session_is_signed_as_the_portal_verifies_it() -> None:
    signature = golden("session_signature")
    key = key_of(signature["private_key"])

    text = messages.session_text(nonce=signature["nonce"], node=signature["node"], public_url=signature["public_url"])

    assert text.decode() == signature["message"]
    assert key.sign(text) == signature["signature"]
    assert key.public_key == signature["public_key"]


@pytest.mark.parametrize("name", ["session_open", "session_renew"])
async def test_a_session_is_asked_for_and_read(name: str) -> None:
    body = golden(name)["request"]["body"]
    fields = {field: body[field] for field in ("node", "nonce", "public_url", "instance", "signature")}

    session = messages.read_session(await answered(name))

    assert messages.session_body(**fields) == body
    assert session == messages.Session(
        token="ph-session-" + "0" * 40, expires_in_s=600, generation=7,
        tunnel_url="wss://api.pool.example/agent/v1/tunnel", heartbeat_s=15,
    )  # fmt: skip


async def test_the_challenge_is_read() -> None:
    challenge = messages.read_challenge(await answered("challenge"))

    assert challenge.nonce == "a1" * 32
    assert challenge.server_time == datetime.fromisoformat("2026-11-02T12:00:00+00:00")


async def test_a_heartbeat_says_why_the_owner_keeps_the_machine() -> None:
    body = golden("heartbeat_owner_rests")["request"]["body"]
    until = datetime.fromisoformat(body["owner"]["until"])

    reply = messages.read_heartbeat(await answered("heartbeat_owner_rests"))

    assert messages.owner_body(Standing(Action.REST, "owner_quiet_hours", until)) == {"owner": body["owner"]}
    assert messages.owner_body(Standing(Action.SERVE)) == {}
    assert reply.state == "maintenance"


async def test_a_wanted_round_is_read_and_its_report_built() -> None:
    reply = messages.read_heartbeat(await answered("heartbeat_checks"))
    body = golden("checks_report")["request"]["body"]

    made = rounds.report_body(
        name=body["round"], state=body["state"], percent=body["percent"], doing=body["doing"], results=body["results"]
    )
    taken = rounds.read_report(await answered("checks_report"))

    assert reply.check_round == rounds.WantedRound("round_0123456789abcdefghjk", "demand", is_whole=True)
    assert made == body
    assert taken.state == "running"
    assert [(one.id, one.verdict, one.code) for one in taken.verdicts] == [
        ("gpu.matmul.bf16", "pass", ""), ("gpu.vram", "fail", "vram_corrupt"),
        ("gpu.matmul.fp8", "skip", "check_unsupported"),
    ]  # fmt: skip


async def test_a_result_is_told_as_the_golden_one() -> None:
    wanted = golden("checks_report")["request"]["body"]["results"][0]
    result = replace(
        measured("gpu.matmul.bf16", 165.0, detail=wanted["detail"], evidence=wanted["evidence"]),
        subject=wanted["subject"],
    )

    assert told(result) == wanted


@pytest.mark.parametrize("name", ["heartbeat_first", "heartbeat_serving"])
async def test_a_heartbeat_is_built_and_its_answer_read(name: str) -> None:
    body = golden(name)["request"]["body"]
    reports = [
        DeploymentReport(model="acme/chat-8b", max_concurrency=8, **deployment) for deployment in body["deployments"]
    ]

    made = messages.heartbeat_body(
        sent_at=datetime.fromisoformat(body["sent_at"]), wish=body["wish"], host=body["host"], gpus=body["gpus"],
        gpu_errors=body["gpu_errors"], deployments=reports,
    )  # fmt: skip
    reply = messages.read_heartbeat(await answered(name))

    assert {**made, "sent_at": ""} == {**body, "sent_at": ""}
    assert datetime.fromisoformat(made["sent_at"]) == datetime.fromisoformat(body["sent_at"])
    answer = golden(name)["response"]["body"]
    assert reply.state == answer["state"]
    assert [one.deployment for one in reply.desired] == [one["deployment"] for one in answer["desired"]]
    assert [(one.code, one.fix) for one in reply.messages] == [(one["code"], one["fix"]) for one in answer["messages"]]


async def test_a_heartbeat_tells_of_the_hardware_but_not_of_the_owners_processes() -> None:
    body = golden("heartbeat_hardware")["request"]["body"]
    (gpu,) = body["gpus"]
    values = {name: value for name, value in gpu["values"].items() if name != "process_count"}
    missing = {"processes" if name == "process_count" else name: reason for name, reason in gpu["missing"].items()}

    made = messages.heartbeat_body(
        sent_at=datetime.fromisoformat(body["sent_at"]), wish="serve", host=body["host"],
        gpus=[{**gpu, "values": values, "missing": missing}], gpu_errors=body["gpu_errors"], deployments=[],
    )  # fmt: skip
    counted = messages.heartbeat_body(
        sent_at=datetime.fromisoformat(body["sent_at"]), wish="serve", host={},
        gpus=[{**gpu, "values": {"processes": [{"pid": 7, "memory_bytes": None}]}, "missing": {}}],
        gpu_errors=[], deployments=[],
    )  # fmt: skip

    told = {**made, **messages.host_missing_body(body["host_missing"])}
    assert {**told, "sent_at": ""} == {**body, "sent_at": ""}
    assert counted["gpus"][0]["values"] == {"process_count": 1}
    assert messages.read_heartbeat(await answered("heartbeat_hardware")).state == "degraded"


async def test_every_field_of_a_desired_deployment_is_read() -> None:
    (wanted,) = golden("heartbeat_serving")["response"]["body"]["desired"]

    (read,) = messages.read_heartbeat(await answered("heartbeat_serving")).desired

    assert {name: getattr(read, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    "name",
    ["enrol_invalid_value", "enrol_token_invalid", "enrol_token_used", "heartbeat_superseded", "session_node_cloned",
     "session_nonce_invalid"],
)  # fmt: skip
async def test_a_refusal_is_read_by_its_code(name: str) -> None:
    response = golden(name)["response"]

    with pytest.raises(PortalError) as raised:
        await answered(name)

    error = response["body"]["error"]
    assert (raised.value.code, raised.value.status) == (error["code"], response["status"])
    assert raised.value.fix == error["fix"]


@pytest.mark.parametrize("frame", golden("tunnel_frames"), ids=lambda frame: f"{frame['name']}-{frame['stream']}")
def test_tunnel_frames_have_the_golden_bytes(frame: dict[str, Any]) -> None:
    payload, message = base64.b64decode(frame["payload"]), base64.b64decode(frame["message"])

    assert frames.encode(FrameType[frame["name"]], frame["stream"], payload) == message

    if FrameType[frame["name"]] in frames.FROM_GATEWAY:
        read = frames.decode(message)
        assert (read.type.name, read.stream, read.payload) == (frame["name"], frame["stream"], payload)


def test_the_agents_own_json_frames_have_the_golden_payloads() -> None:
    by_name = {frame["name"]: base64.b64decode(frame["payload"]) for frame in golden("tunnel_frames")}
    report = DeploymentReport(deployment="dep", model="acme/chat-8b", state="ready", max_concurrency=8)

    hello = frames.encode_json(FrameType.HELLO, 0, messages.hello_body([report]))
    head, _ = frames.read_request(by_name["REQUEST"])

    assert hello[frames.HEADER_BYTES :] == by_name["HELLO"]
    assert _head(8, 503, {"content-type": "application/json", "retry-after": "1.5"}) == _golden_head(8)
    assert _head(7, 200, {"content-type": "text/event-stream", "retry-after": "1.5"}) == _golden_head(7)
    assert (head.method, head.path, head.model) == ("POST", "/v1/chat/completions", "acme/chat-8b")
    assert frames.read_window(by_name["WINDOW"]) == 65_536


def _head(stream: int, status: int, headers: dict[str, str]) -> bytes:
    return frames.encode_json(FrameType.HEAD, stream, messages.head_body(status, headers))


def _golden_head(stream: int) -> bytes:
    (frame,) = (row for row in golden("tunnel_frames") if (row["name"], row["stream"]) == ("HEAD", stream))
    return base64.b64decode(frame["message"])


@pytest.mark.parametrize("said", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "1e3", "1234567"])
def test_a_retry_after_that_is_no_number_of_seconds_is_left_out(said: str) -> None:
    assert messages.head_body(503, {"retry-after": said}) == {"status": 503, "content_type": ""}


@pytest.mark.parametrize("name", ["tokenizer.json", "chat_template.jinja"])
def test_the_simulator_uses_the_portals_demo_model(name: str) -> None:
    theirs = ROOT / "portal" / "sandbox" / "demo_model" / name
    ours = ROOT / "agent" / "poolhouse_agent" / "simulate" / name

    assert ours.read_bytes() == theirs.read_bytes()
