"""Whatever a machine sends, it gets the error's shape: no traceback, nothing stored."""

import logging

import orjson
import pytest
from django.test import Client

from portal.nodes.models import EnrolmentToken, Gpu, Node, NodeSession
from tests.factories.nodes import AgentKey, EnrolmentTokenFactory, NodeFactory, NodeSessionFactory
from tests.integration.nodes.agent import GPU

ROUTES = ["enrol", "session/challenge", "session", "heartbeat"]
TOKEN, SESSION = "ph-enrol-x", "ph-session-x"
JOIN = {"public_key": AgentKey.of(1).public, "name": "rack", "agent_version": "0.1.0", "protocol": 1}
BEAT = {"sent_at": "2026-11-02T12:00:00Z", "agent_version": "0.1.0", "wish": "serve"}


@pytest.fixture
def token(db) -> EnrolmentToken:
    return EnrolmentTokenFactory(token_hash=_sha(TOKEN), expires_at="2100-01-01T00:00:00Z")


@pytest.fixture
def session(db) -> NodeSession:
    return NodeSessionFactory(
        node=NodeFactory(state="checking"), token_hash=_sha(SESSION), expires_at="2100-01-01T00:00:00Z"
    )


def _sha(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def post(path: str, body: bytes | dict, *, bearer: str = "", content_type: str = "application/json"):
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    return Client().post(
        f"/agent/v1/{path}", raw, content_type=content_type, headers={"authorization": f"Bearer {bearer}"}
    )


def refusal(response) -> tuple[int, str, str | None]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code", "fix"}
    assert "Traceback" not in response.text
    assert response["x-request-id"]
    return response.status_code, error["code"], error["param"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"NaN",
        b'{"a": NaN}',
        b"\xff\xfe",
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a": "x\\u0000y"}',
        b"[" * 1000 + b"]" * 1000,
        b'{"a":' * 1000 + b"1" + b"}" * 1000,
        b'{"a":' * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
    ids=range(15),
)
def test_what_is_not_usable_json_is_refused(db, route, body):
    status, code, _ = refusal(post(route, body))

    assert (status, code) in {(400, "invalid_json"), (400, "invalid_value")}


@pytest.mark.parametrize("route", ROUTES)
def test_a_body_over_a_megabyte_is_refused(db, route):
    for size in (1_000_001, 20_000_000):
        assert refusal(post(route, b'{"a": "' + b"x" * size + b'"}'))[:2] == (413, "request_too_large")


@pytest.mark.parametrize("route", ROUTES)
def test_other_content_types_are_refused(db, route):
    assert refusal(post(route, b"a=1", content_type="application/x-www-form-urlencoded"))[:2] == (
        415,
        "unsupported_media_type",
    )


@pytest.mark.parametrize("route", ROUTES)
def test_other_methods_are_refused(db, route):
    response = Client().get(f"/agent/v1/{route}")

    assert refusal(response)[:2] == (405, "method_not_allowed")


@pytest.mark.parametrize("path", ["", "nothing", "enrol/", "heartbeat/x", "../agent/v1/enrol"])
def test_unknown_paths_are_answered_in_the_same_shape(db, path):
    assert refusal(Client().post(f"/agent/v1/{path}"))[0] == 404


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"public_key": 7}, "public_key"),
        ({"public_key": None}, "public_key"),
        ({"public_key": ["x"]}, "public_key"),
        ({"public_key": "A" * 44}, "public_key"),
        ({"name": {}}, "name"),
        ({"name": True}, "name"),
        ({"protocol": "1"}, "protocol"),
        ({"protocol": 1.0}, "protocol"),
        ({"protocol": True}, "protocol"),
        ({"protocol": -1}, "protocol"),
        ({"protocol": 2**63}, "protocol"),
        ({"is_simulated": "yes"}, "is_simulated"),
        ({"is_simulated": 1}, "is_simulated"),
        ({"host": "Debian"}, "host"),
        ({"host": {"cpu_count": "64"}}, "host.cpu_count"),
    ],
)
def test_a_wrong_type_is_named_and_uses_no_token_up(token, change, param):
    assert refusal(post("enrol", {**JOIN, **change}, bearer=TOKEN)) == (400, "invalid_value", param)

    token.refresh_from_db()
    assert (token.used_at, token.node, Node.objects.count()) == (None, None, 0)


@pytest.mark.parametrize("missing", sorted(JOIN))
def test_a_missing_field_is_named(token, missing):
    body = {name: value for name, value in JOIN.items() if name != missing}

    assert refusal(post("enrol", body, bearer=TOKEN)) == (400, "invalid_value", missing)


def test_unknown_fields_are_ignored(token):
    assert post("enrol", {**JOIN, "colour": "red", "host": {"os": "x", "shoes": []}}, bearer=TOKEN).status_code == 201


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"sent_at": 12}, "sent_at"),
        ({"sent_at": "yesterday"}, "sent_at"),
        ({"wish": "dance"}, "wish"),
        ({"wish": None}, "wish"),
        ({"gpus": {}}, "gpus"),
        ({"gpus": [7]}, "gpus.0"),
        ({"gpus": [{"index": 0}]}, "gpus.0.uuid"),
        ({"gpus": [{"uuid": "GPU-1", "index": 0, "memory_bytes": -1}]}, "gpus.0.memory_bytes"),
        ({"gpus": [{"uuid": "GPU-1", "index": 0, "memory_bytes": 1e30}]}, "gpus.0.memory_bytes"),
        ({"gpus": [{"uuid": "GPU-1", "index": 999}]}, "gpus.0.index"),
        ({"gpus": [{"uuid": f"GPU-{n}", "index": 0} for n in range(65)]}, "gpus"),
        ({"gpu_errors": [{"code": "Gross Ärger"}]}, "gpu_errors.0.code"),
        ({"deployments": [{"deployment": "dep_1", "state": "flying"}]}, "deployments.0.state"),
        ({"deployments": [{"deployment": "dep_1", "state": "ready", "running": "3"}]}, "deployments.0.running"),
        (
            {"deployments": [{"deployment": "d", "state": "ready", "counters": {"prompt_tokens_total": -1}}]},
            "deployments.0.counters.prompt_tokens_total",
        ),
        ({"host": []}, "host"),
    ],
)
def test_a_wrong_heartbeat_is_named_and_changes_nothing(session, change, param):
    before = Node.objects.values().get()

    assert refusal(post("heartbeat", {**BEAT, **change}, bearer=SESSION)) == (400, "invalid_value", param)

    assert Node.objects.values().get() == before
    assert not Gpu.objects.exists()


def test_odd_readings_do_not_silence_a_node(session):
    """What is no reading is left out; what is one and cannot be true is `implausible`, never a number."""
    gpu = {
        "uuid": GPU.uuid,
        "index": 0,
        "name": "x" * 500,
        "memory_bytes": 2**60,
        "driver": "",
        "values": {
            "temperature_c": 41,
            "power_mw": -1,
            "fan_percent": "fast",
            "ecc_uncorrected": 0.5,
            "serial": "y" * 900,
            "topology": [0, None, 40],
            "xids": ["79"],
            "processes": [{"pid": 1}],
            "a" * 100: {"deep": [1]},
            "none": None,
        },
        "missing": {"vbios": "not_supported", "board_id": "Gross Ärger", "bus_id": 7, "nonsense": "not_supported"},
    }
    host = {"load_1m": 0.5, "cpu_count": -3, "kernel": "6.1\x07", "odd": [[]]}

    response = post(
        "heartbeat", {**BEAT, "gpus": [gpu], "host": host, "host_missing": {"disk_bytes": "unreadable"}}, bearer=SESSION
    )

    assert response.status_code == 200
    row = Gpu.objects.select_related("node").get()
    assert (len(row.name), row.memory_bytes) == (96, None)
    assert row.report["values"] == {"temperature_c": 41, "topology": [0, None, 40]}
    assert row.report["missing"] == {
        "power_mw": "implausible", "fan_percent": "implausible", "ecc_uncorrected": "implausible",
        "serial": "implausible", "xids": "implausible", "memory": "implausible", "vbios": "not_supported",
    }  # fmt: skip
    assert row.node.load["host"] == {"load_1m": 0.5}
    assert row.node.load["host_missing"] == {
        "cpu_count": "implausible", "kernel": "implausible", "disk_bytes": "unreadable",
    }  # fmt: skip


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer \xe9"])
def test_a_token_that_is_none_is_refused(db, authorization):
    for route, body, code in (
        ("enrol", JOIN, "enrolment_token_invalid"),
        ("heartbeat", BEAT, "session_expired"),
    ):
        response = Client().post(
            f"/agent/v1/{route}",
            orjson.dumps(body),
            content_type="application/json",
            headers={"authorization": authorization},
        )
        assert refusal(response)[:2] == (401, code)


def test_a_session_token_in_the_body_or_the_address_is_no_token(session):
    assert refusal(post(f"heartbeat?token={SESSION}", {**BEAT, "token": SESSION}))[:2] == (401, "session_expired")


def test_a_fault_of_ours_is_logged_and_told_without_detail(db, caplog):
    from rest_framework.test import APIRequestFactory

    from portal.api.errors import handle

    APIRequestFactory()
    with caplog.at_level(logging.ERROR):
        response = handle(ZeroDivisionError("secret detail"), {"view": None})

    assert (response.status_code, response.data["error"]["code"]) == (500, "internal_error")
    assert "secret detail" not in str(response.data)
    assert caplog.records[0].exc_info[0] is ZeroDivisionError
