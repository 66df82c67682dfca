"""Bad input of every kind: an answer of the error table, no traceback in the log, no hold left behind."""

import signal
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest

from portal.accounts.models import ApiKey, Organization
from portal.accounts.rules.terms import Budget
from portal.accounts.services import keys
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import CreditLease
from portal.core import clock
from portal.core.money import NANO_PER_UNIT
from portal.integrations import bus
from portal.metering.models import UsageRecord
from tests.fakes import scripts
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = [{"role": "user", "content": "Hi"}]
GOOD = {"model": MODEL, "messages": MESSAGES}


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Iterator[Gateway]:
    gateway = pool.gateway()
    pool.connect(pool.machine(), gateway, scripts.honest())
    yield gateway
    assert "Traceback" not in gateway.log, gateway.log


@pytest.fixture
def client(pool: Pool, gateway: Gateway) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client


def _refused(response: httpx.Response, status: int, code: str, param: str | None = None) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error.keys() == {"message", "type", "param", "code"}
    assert len(response.headers["x-request-id"]) == 36
    return error


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"not json", "invalid_json"),
        (b'{"model": "x\xff"}', "invalid_json"),
        (b'{"a":' * 1_000 + b"1" + b"}" * 1_000, "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b"[]", "invalid_value"),
        (b"null", "invalid_value"),
    ],
)
def test_a_body_that_is_not_an_object_of_json(client: httpx.Client, body: bytes, code: str) -> None:
    _refused(client.post("/v1/chat/completions", content=body), 400, code)


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"model": None}, "invalid_value", "model"),
        ({"model": 5}, "invalid_value", "model"),
        ({"messages": "Hi"}, "invalid_value", "messages"),
        ({"messages": [{"role": "user", "content": {"text": "Hi"}}]}, "invalid_value", "messages[0].content"),
        ({"temperature": "hot"}, "invalid_value", "temperature"),
        ({"n": 9}, "invalid_value", "n"),
        ({"max_tokens": -1}, "invalid_value", "max_tokens"),
        ({"stream": "yes"}, "invalid_value", "stream"),
        ({"prompt_logprobs": 20}, "unsupported_parameter", "prompt_logprobs"),
        ({"echo": True, "logprobs": True}, "unsupported_parameter", "echo"),
        ({"priority": 1}, "unsupported_parameter", "priority"),
        ({"chat_template": "{{ x }}"}, "unsupported_parameter", "chat_template"),
        ({"kv_transfer_params": {}}, "unsupported_parameter", "kv_transfer_params"),
        ({"cache_salt": "mine"}, "unsupported_parameter", "cache_salt"),
        ({"api_key": "sk-pool-x"}, "invalid_value", "api_key"),
    ],
)
def test_fields_that_cannot_be_used(client: httpx.Client, fields: dict[str, Any], code: str, param: str) -> None:
    _refused(client.post("/v1/chat/completions", json=GOOD | fields), 400, code, param)


def test_remote_media_are_refused(client: httpx.Client) -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = GOOD | {"messages": [{"role": "user", "content": [part]}]}

    param = "messages[0].content[0].type"
    _refused(client.post("/v1/chat/completions", json=body), 400, "unsupported_parameter", param)


def test_a_body_of_twenty_megabytes_is_refused_whether_declared_or_not(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(320):
            yield b"x" * 65_536

    _refused(client.post("/v1/chat/completions", content=b"x" * (20 << 20)), 413, "request_too_large")
    try:
        response = client.post("/v1/chat/completions", content=chunks())
    except (httpx.WriteError, httpx.ReadError):
        return  # the answer went out and the socket was closed while we still wrote
    _refused(response, 413, "request_too_large")


def test_headers_that_are_too_large(gateway: Gateway) -> None:
    response = httpx.get(f"{gateway.url}/v1/models", headers={"x-big": "a" * 50_000})

    _refused(response, 431, "request_too_large")


def test_endless_headers_are_cut_off(gateway: Gateway) -> None:
    sent = 0

    def send_headers(raw: socket.socket) -> None:
        nonlocal sent
        while sent < 5_000_000:
            raw.sendall(b"x-%d: %s\r\n" % (sent, b"a" * 1_000))
            sent += 1_000

    with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as raw:
        raw.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n")
        with pytest.raises(OSError):  # noqa: PT011  reset or broken pipe, as the kernel likes
            send_headers(raw)

    assert sent < 5_000_000


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer sk-pool-unknown-key"},
        {"authorization": "Basic c2stcG9vbA=="},
        {"authorization": "sk-pool-unknown-key"},
        {"x-api-key": "sk-pool-unknown-key"},
        {"x-api-key": "ä" * 10},
    ],
)
def test_no_key_or_an_unknown_one(gateway: Gateway, headers: dict[str, str]) -> None:
    encoded = {name: value.encode() for name, value in headers.items()}
    response = httpx.post(f"{gateway.url}/v1/chat/completions", json=GOOD, headers=encoded)

    _refused(response, 401, "invalid_api_key")


def test_a_key_in_the_wrong_place_gets_a_hint(pool: Pool, gateway: Gateway) -> None:
    in_url = httpx.post(f"{gateway.url}/v1/chat/completions?api_key={pool.key}", json=GOOD)
    in_body = httpx.post(f"{gateway.url}/v1/chat/completions", json=GOOD | {"api_key": pool.key})

    error = _refused(in_url, 401, "invalid_api_key")
    assert "Authorization: Bearer" in error["message"]
    assert pool.key not in in_url.text
    _refused(in_body, 401, "invalid_api_key")


def test_the_other_header_works(pool: Pool, gateway: Gateway) -> None:
    response = httpx.get(f"{gateway.url}/v1/models", headers={"x-api-key": pool.key})

    assert response.status_code == 200


def test_a_revoked_key_is_refused_within_a_second(pool: Pool, gateway: Gateway) -> None:
    text = pool.new_key(pool.customer)
    row = ApiKey.objects.latest("id")
    with pool.client(gateway, key=text) as client:
        until("the key works", lambda: client.get("/v1/models").status_code == 200, 3)
        keys.revoke_key(organization=pool.customer, public_id=row.public_id, actor=SYSTEM_ACTOR, now=clock.now())

        until("the key is refused", lambda: client.get("/v1/models").status_code == 401, 1)
        _refused(client.get("/v1/models"), 401, "revoked_api_key")


def test_an_expired_key(pool: Pool, gateway: Gateway) -> None:
    text = pool.new_key(pool.customer, expires_at=clock.now() + timedelta(seconds=1.5))

    with pool.client(gateway, key=text) as client:
        until("the key has expired", lambda: client.get("/v1/models").status_code == 401, 4)
        until("it is known as expired", lambda: "expired_api_key" in client.get("/v1/models").text, 3)


def test_a_suspended_organization(pool: Pool, gateway: Gateway) -> None:
    organization = pool.organization(0)
    text = pool.new_key(organization)
    Organization.objects.filter(pk=organization.pk).update(state="suspended")
    bus.announce("organizations", organization.public_id)

    with pool.client(gateway, key=text) as client:
        until("it is refused", lambda: client.get("/v1/models").status_code == 403, 3)
        _refused(client.get("/v1/models"), 403, "organization_suspended")


def test_unknown_models_paths_and_methods(client: httpx.Client) -> None:
    _refused(client.post("/v1/chat/completions", json=GOOD | {"model": "no/such"}), 404, "model_not_found", "model")
    _refused(client.get("/v1/no-such-path"), 404, "not_found")
    _refused(client.get("/v1/chat/completions"), 405, "method_not_allowed")


def test_a_prompt_longer_than_the_context(client: httpx.Client) -> None:
    body = GOOD | {"messages": [{"role": "user", "content": "word " * 4_000}]}

    error = _refused(client.post("/v1/chat/completions", json=body), 400, "context_length_exceeded", "messages")
    assert "2048" in error["message"]


def test_a_template_that_refuses_the_messages(client: httpx.Client) -> None:
    rows = [{"role": "assistant", "content": None, "tool_calls": [_call("{not json")]}]
    response = client.post("/v1/chat/completions", json=GOOD | {"messages": rows})

    assert response.status_code in {200, 400}
    if response.status_code == 400:
        assert response.json()["error"]["code"] in {"invalid_value", "unboundable_request"}


def _call(arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def test_no_credit(pool: Pool, gateway: Gateway) -> None:
    with pool.client(gateway, key=pool.known_key(gateway, pool.organization(0))) as poor:
        error = _refused(poor.post("/v1/chat/completions", json=GOOD), 402, "credit_balance_exhausted")

    assert error["type"] == "insufficient_quota"


def test_a_key_whose_budget_is_spent(pool: Pool, gateway: Gateway) -> None:
    with pool.client(gateway, key=pool.known_key(gateway, pool.customer, budget=Budget(1))) as capped:
        _refused(capped.post("/v1/chat/completions", json=GOOD), 402, "key_budget_exhausted")


def test_refusals_leave_no_record_and_no_hold(pool: Pool, gateway: Gateway) -> None:
    other = pool.gateway(index=1)
    organization = pool.organization(NANO_PER_UNIT)
    with pool.client(other, key=pool.known_key(other, organization)) as client:
        for content in (b"{", orjson.dumps(GOOD | {"n": 9}), orjson.dumps(GOOD | {"model": "no/such"})):
            assert client.post("/v1/chat/completions", content=content).status_code in {400, 404}
        assert client.post("/v1/chat/completions", json=GOOD).status_code == 200

    assert other.stop() == -signal.SIGTERM
    (record,) = UsageRecord.objects.filter(organization_id=organization.pk)
    (lease,) = CreditLease.objects.filter(organization=organization)
    assert record.outcome == "completed"
    assert lease.granted == record.charge_nano, "what no record needs has gone back"
