"""Before the first delta another node takes over unseen; after it the stream ends in an error, free of charge."""

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from portal.metering.models import TurnedAway, UsageRecord
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, Script, ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Machine, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = [{"role": "user", "content": "What is a pool?"}]
ENGINE_500 = {"error": {"message": "EngineCore is dead", "type": "InternalServerError", "code": 500}}


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    # Here every other request is a retry; how many there may be otherwise is test_retry_budget's subject.
    return pool.gateway(GATEWAY_RETRY_FLOOR="10000")


@pytest.fixture
def machines(pool: Pool) -> Iterator[list[Machine]]:
    """Two fresh machines, so that no breaker of another test is open."""
    made = [pool.machine(), pool.machine()]
    yield made
    pool.disconnect()
    for machine in made:
        machine.node.deployments.update(desired="stopped")


@pytest.fixture
def client(pool: Pool, gateway: Gateway) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client


class _Pair:
    """Two nodes of which whichever is asked first misbehaves, and whichever comes second is honest."""

    def __init__(self, pool: Pool, gateway: Gateway, machines: list[Machine], first: Script) -> None:
        self.asked: list[Reply] = []
        self._first = first
        self.nodes = [pool.connect(machine, gateway, self._answer) for machine in machines]

    async def _answer(self, reply: Reply) -> None:
        self.asked.append(reply)
        await (self._first if len(self.asked) == 1 else scripts.honest())(reply)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def _ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES} | fields)


def _records(response: httpx.Response, count: int) -> list[UsageRecord]:
    rows = UsageRecord.objects.filter(request_id=UUID(response.headers["x-request-id"])).order_by("attempt")
    return until(f"{count} records", lambda: len(found := list(rows.all())) == count and found)


def _text(response: httpx.Response) -> str:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: {")]
    rows = [json.loads(line) for line in lines]
    return "".join(row["choices"][0]["delta"].get("content", "") for row in rows if row.get("choices"))


BEFORE = {
    "agent_refuses": (scripts.refusing("engine_unreachable"), "node_fault"),
    "agent_is_full": (scripts.refusing("too_many_streams"), "node_busy"),
    "agent_drains": (scripts.refusing("draining"), "node_busy"),
    "engine_500": (scripts.engine_error(500, ENGINE_500), "node_fault"),
    "engine_503": (scripts.engine_error(503, ENGINE_500), "node_busy"),
    "engine_401": (scripts.engine_error(401, {"error": "Unauthorized"}), "node_fault"),
    "engine_404": (scripts.engine_error(404, {"detail": "Not Found"}), "node_fault"),
    "empty": (scripts.empty, "empty"),
    "dies_first": (scripts.dying(0), "node_fault"),
    "error_event_first": (scripts.dying(0, how="error_event"), "node_fault"),
    "truncated_first": (scripts.dying(0, how="truncated"), "node_fault"),
    "nonsense_first": (scripts.dying(0, how="nonsense"), "node_fault"),
    "silent": (scripts.silent, "node_timeout"),
    "silent_after_head": (scripts.silent_after_head, "node_timeout"),
    "bomb": (scripts.bomb, "node_fault"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_before_the_first_delta_another_node_takes_over_unseen(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client, name: str
) -> None:
    script, outcome = BEFORE[name]
    pair = _Pair(pool, gateway, machines, script)

    response = _ask(client, stream=True)

    assert response.status_code == 200, response.text + gateway.log
    assert _text(response) == scripts.TEXT
    assert response.text.endswith("data: [DONE]\n\n")
    failed, served = _records(response, 2)
    assert (failed.outcome, failed.charge_nano, failed.provider_nano) == (outcome, 0, 0)
    assert served.outcome == "completed"
    assert served.charge_nano > 0
    assert failed.node_id != served.node_id
    pair.stop()


@pytest.mark.parametrize("name", ["engine_500", "empty", "agent_is_full", "silent"])
def test_whole_answers_fail_over_too(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client, name: str
) -> None:
    script, outcome = BEFORE[name]
    if name == "silent":
        script = scripts.refusing("engine_timeout")
    pair = _Pair(pool, gateway, machines, script)

    response = _ask(client)

    assert response.json()["choices"][0]["message"]["content"] == scripts.TEXT
    failed, served = _records(response, 2)
    assert (failed.outcome, failed.charge_nano) == (outcome, 0)
    assert served.charge_nano > 0
    pair.stop()


@pytest.mark.parametrize("how", ["fail", "error_event", "truncated", "nonsense"])
def test_after_the_first_delta_nothing_is_replayed_and_nothing_charged(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client, how: str
) -> None:
    pair = _Pair(pool, gateway, machines, scripts.dying(4, how=how))

    response = _ask(client, stream=True)

    assert response.status_code == 200
    assert scripts.TEXT.startswith(_text(response))
    assert _text(response)
    last = json.loads(response.text.rstrip("\n").rsplit("data: ", 1)[1])
    assert last["error"]["type"] == "node_error"
    assert last["error"]["code"] == "node_error"
    assert "[DONE]" not in response.text
    assert "EngineCore" not in response.text
    (failed,) = _records(response, 1)
    assert (failed.outcome, failed.charge_nano, failed.provider_nano) == ("node_fault", 0, 0)
    assert len(pair.asked) == 1
    pair.stop()


def test_a_prompt_the_engine_finds_too_long_is_the_customers_error(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    text = "This model's maximum context length is 512 tokens. However, your request has 600 input tokens."
    pair = _Pair(pool, gateway, machines, scripts.engine_error(400, {"error": {"message": text, "code": 400}}))

    response = _ask(client, stream=True, messages=[{"role": "user", "content": "pool " * 380}], max_tokens=500)

    assert response.status_code == 400, response.text
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert text not in response.text
    assert len(pair.asked) == 1
    (record,) = _records(response, 1)
    assert (record.outcome, record.charge_nano) == ("customer_error", 0)
    pair.stop()


def test_a_node_that_finds_a_short_prompt_too_long_is_not_believed(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    text = "This model's maximum context length is 512 tokens."
    pair = _Pair(pool, gateway, machines, scripts.engine_error(400, {"error": {"message": text, "code": 400}}))

    response = _ask(client)

    assert response.status_code == 200
    assert [row.outcome for row in _records(response, 2)] == ["customer_error", "completed"]
    pair.stop()


def test_a_schema_that_does_not_compile_is_the_customers_error_at_once(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    refusal = {"error": {"message": "Grammar error: Invalid type: no-such-type", "code": 400}}
    pair = _Pair(pool, gateway, machines, scripts.engine_error(400, refusal))
    schema = {"name": "p", "schema": {"type": "object"}}

    response = _ask(client, response_format={"type": "json_schema", "json_schema": schema})

    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_value")
    assert "no-such-type" not in response.text
    assert len(pair.asked) == 1
    (record,) = _records(response, 1)
    assert (record.outcome, record.error_code, record.charge_nano) == ("customer_error", "engine_refused", 0)
    pair.stop()


def test_one_nodes_refusal_of_the_values_is_checked_with_another(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    refusal = scripts.engine_error(400, {"error": {"message": "secret path /opt/x", "code": 400}})
    pair = _Pair(pool, gateway, machines, refusal)
    assert _ask(client).status_code == 200
    pair.stop()

    for machine in machines:
        pool.connect(machine, gateway, refusal)
    both = _ask(client)
    assert both.status_code == 400
    assert both.json()["error"]["code"] == "invalid_value"
    assert "secret" not in both.text


def test_when_every_node_fails_the_answer_names_it_and_holds_are_free(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    for machine in machines:
        pool.connect(machine, gateway, scripts.engine_error(500, ENGINE_500))

    response = _ask(client)

    assert response.status_code == 502
    assert response.json()["error"]["type"] == "node_error"
    assert "EngineCore" not in response.text
    assert [record.charge_nano for record in _records(response, 2)] == [0, 0]


def test_a_node_that_never_answers_is_a_timeout(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    pool.connect(machines[0], gateway, scripts.silent)

    began = time.monotonic()
    response = _ask(client, stream=True)

    assert (response.status_code, response.json()["error"]["code"]) == (504, "node_timeout")
    assert time.monotonic() - began < 6


def test_a_node_that_streams_without_end_is_cut_off(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client
) -> None:
    node: ScriptedNode = pool.connect(machines[0], gateway, scripts.endless)

    response = _ask(client, stream=True, max_tokens=5)

    assert '"error"' in response.text
    assert len(response.content) < 2_000_000
    until("the node was told to stop", node.replies[-1].canceled.is_set, 2)
    (record,) = _records(response, 1)
    assert record.charge_nano == 0


def test_without_a_node_there_is_no_capacity(pool: Pool, gateway: Gateway, client: httpx.Client) -> None:
    until("the nodes have gone", lambda: _ask(client).status_code == 503, 5)
    response = _ask(client)

    assert response.json()["error"]["code"] == "no_capacity"
    assert int(response.headers["retry-after"]) >= 1
    seen = TurnedAway.objects.filter(model_id=pool.model.pk, reason__in=("none", "tunnel"), requests__gte=1)
    until("placement can see the demand", seen.exists, 10)


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_that_is_empty_everywhere_is_handed_over_free_of_charge(
    pool: Pool, gateway: Gateway, machines: list[Machine], client: httpx.Client, is_stream: bool
) -> None:
    nodes = [pool.connect(machine, gateway, scripts.empty) for machine in machines]

    response = _ask(client, stream=is_stream)

    assert response.status_code == 200
    if is_stream:
        assert response.text.endswith("data: [DONE]\n\n")
        assert '"finish_reason":"stop"' in response.text
    else:
        assert response.json()["choices"][0]["message"]["content"] == ""
        assert response.json()["usage"]["cost"] == "0"
    assert [row.charge_nano for row in _records(response, 2)] == [0, 0]
    assert [len(node.replies) for node in nodes] == [1, 1]
