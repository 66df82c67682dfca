"""A customer who leaves: exactly one record, exact counts, the exact price, and a node that is free again."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from portal.metering.models import UsageRecord
from tests.factories.billing import TERMS
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply, Script, ScriptedNode, usage
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES = [{"role": "user", "content": "What is a pool?"}]
PIECES = scripts.tokens(scripts.TEXT)
PROMPT = scripts.prompt_tokens({"messages": MESSAGES})
READ = 6


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture(scope="module")
def node(pool: Pool, gateway: Gateway) -> ScriptedNode:
    made = pool.connect(pool.machine(concurrency=1), gateway, scripts.honest())
    with pool.client(gateway) as client:
        until("it is routed to", lambda: _post(client, max_tokens=1).status_code == 200)
    return made


@pytest.fixture
def client(pool: Pool, gateway: Gateway, node: ScriptedNode) -> Iterator[httpx.Client]:
    with pool.client(gateway) as client:
        yield client


def _post(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES} | fields)


def _stalling(after: int, *, states_usage: bool) -> Script:
    """Send some tokens, then nothing more."""

    async def script(reply: Reply) -> None:
        await reply.begin()
        for number, piece in enumerate(PIECES[:after], start=1):
            await reply.delta(piece, **({"usage": usage(PROMPT, number)} if states_usage else {}))
        await scripts.silent(reply)

    return script


def _read_and_leave(client: httpx.Client, tokens: int) -> UUID:
    """Read so many tokens and close; return the request's id."""
    body = {"model": MODEL, "messages": MESSAGES, "stream": True, "max_tokens": 64}
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        read = 0
        for line in response.iter_lines():
            if line.startswith("data: ") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                read += 1
            if read == tokens:
                return UUID(response.headers["x-request-id"])
    raise AssertionError("the stream ended before the customer left")


def _only_record(request_id: UUID) -> UsageRecord:
    rows = UsageRecord.objects.filter(request_id=request_id)
    record: UsageRecord = until("its record", rows.first)
    assert rows.count() == 1
    return record


def _price(prompt: int, completion: int) -> int:
    nano = prompt * TERMS.prompt_nano_per_mtok + completion * TERMS.completion_nano_per_mtok
    return (nano + 500_000) // 1_000_000


# litellm#33736, #35958, #37558: a cut stream has exactly one settled record
# litellm#36008: what was handed over is counted, neither drained for nor guessed
# litellm#37734: at the pinned price, with the whole usage vector
# new-api#5235, #7062: no usage stated is not no usage
@pytest.mark.parametrize("states_usage", [True, False])
def test_a_stream_cut_by_its_customer_costs_what_he_was_handed(
    client: httpx.Client, node: ScriptedNode, *, states_usage: bool
) -> None:
    node.script = _stalling(READ, states_usage=states_usage)

    record = _only_record(_read_and_leave(client, READ))

    assert record.outcome == "customer_abort"
    assert (record.prompt_tokens, record.completion_tokens, record.cached_tokens) == (PROMPT, READ, 0)
    assert record.charge_nano == _price(PROMPT, READ)
    assert record.charge_nano == record.provider_nano + record.platform_nano
    assert record.price_version_id is not None


# theopenco/llmgateway#3331: leaving before the first token still pays the prompt, which was computed
def test_a_customer_who_leaves_before_the_first_token_pays_his_prompt(client: httpx.Client, node: ScriptedNode) -> None:
    node.script = scripts.silent
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES, "stream": True}, timeout=0.5)

    record = _only_record(UUID(node.replies[-1].head["attempt"].partition("/")[0]))

    assert record.outcome == "customer_abort"
    assert (record.prompt_tokens, record.completion_tokens) == (PROMPT, 0)
    assert record.charge_nano == _price(PROMPT, 0)


# litellm#13245, #37140: the same where the answer is not streamed
# litellm#30244: the node's place is free at once, not when somebody collects the garbage
# vllm#9428, #54947: and the node was told within a second
def test_a_customer_who_leaves_a_whole_answer_frees_his_node(client: httpx.Client, node: ScriptedNode) -> None:
    node.script = scripts.silent
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES}, timeout=0.5)

    until("the node was told", node.replies[-1].canceled.is_set, 1)
    record = _only_record(UUID(node.replies[-1].head["attempt"].partition("/")[0]))
    assert (record.outcome, record.charge_nano) == ("customer_abort", _price(PROMPT, 0))

    node.script = scripts.honest()
    assert _post(client).status_code == 200, "its one place is free again"


# new-api#5288, #5289, #5290: the text of an error is not output
def test_an_error_in_a_stream_is_free(client: httpx.Client, node: ScriptedNode) -> None:
    async def fails(reply: Reply) -> None:
        await reply.begin()
        await reply.delta("Hello")
        await reply.event({"error": {"message": "out of memory " * 200}})
        await reply.end()

    node.script = fails
    response = _post(client, stream=True)

    record = _only_record(UUID(response.headers["x-request-id"]))
    assert (record.outcome, record.charge_nano, record.provider_nano) == ("node_fault", 0, 0)
    assert "out of memory" not in response.text


# django/django#17147: the connection is closed beneath HTTP, without a word
def test_a_connection_reset_in_the_middle_of_a_stream_is_noticed(
    pool: Pool, gateway: Gateway, node: ScriptedNode
) -> None:
    node.script = _stalling(READ, states_usage=True)
    body = json.dumps({"model": MODEL, "messages": MESSAGES, "stream": True, "max_tokens": 64}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {pool.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        raw.sendall(head.encode() + body)
        received = b""
        while received.count(b'"content"') < READ:
            received += raw.recv(65_536)

    until("the node was told", node.replies[-1].canceled.is_set, 1)
    record = _only_record(UUID(node.replies[-1].head["attempt"].partition("/")[0]))
    assert (record.outcome, record.completion_tokens) == ("customer_abort", READ)


# Wei-Shaw/sub2api#4408: what the gateway itself gives up is nobody's bill
# production-stack#749: a dead backend is left within its deadline, the next one answers
def test_an_attempt_that_the_gateway_gave_up_costs_nothing(
    pool: Pool, client: httpx.Client, node: ScriptedNode
) -> None:
    asked: list[Reply] = []

    async def first_is_silent(reply: Reply) -> None:
        asked.append(reply)
        await (scripts.silent if len(asked) == 1 else scripts.honest())(reply)

    second = pool.connect(pool.machine(), pool.gateways[0], first_is_silent)
    node.script = first_is_silent

    response = _post(client, stream=True)

    assert response.text.endswith("data: [DONE]\n\n")
    rows = UsageRecord.objects.filter(request_id=UUID(response.headers["x-request-id"])).order_by("attempt")
    gave_up, served = until("both records", lambda: len(found := list(rows.all())) == 2 and found)
    assert (gave_up.outcome, gave_up.charge_nano, gave_up.provider_nano) == ("node_timeout", 0, 0)
    assert served.charge_nano == _price(PROMPT, len(PIECES) + 1)
    assert asked[0].canceled.is_set()
    second.stop()
