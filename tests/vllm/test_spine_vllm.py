"""The whole pool on a real vLLM: what is billed is what vLLM counted, and an aborted stream stops it."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from poolhouse_agent.engine.metrics import parse

from portal.sandbox import demo, demo_nodes, processes, waiting
from portal.sandbox.ground import Ground
from portal.sandbox.supervisor import Stack

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

QUESTION = "Hello gpu node, what is the price?"
RECORDED_S = 30.0
STOPPED_S = 5.0
END_TOKENS = 1  # of the offered model: what no count of texts can see


@dataclass
class World:
    """A running pool with one vLLM node."""

    client: httpx.Client
    model: str
    engine_url: str

    def request(self, **fields: Any) -> httpx.Response:
        return self.client.post("/v1/chat/completions", json=self.body(**fields))

    def body(self, **fields: Any) -> dict[str, Any]:
        return {"model": self.model, "messages": [{"role": "user", "content": QUESTION}], **fields}

    def record(self, request_id: str) -> dict[str, Any]:
        """The explainable record of a request, once it is written."""
        found: list[dict[str, Any]] = []

        def is_recorded() -> bool:
            answer = self.client.get(f"/v1/requests/{request_id}")
            if answer.status_code == 200:
                found.append(answer.json())
            return bool(found)

        waiting.until(f"request {request_id} is recorded", is_recorded, timeout_s=RECORDED_S)
        return found[0]

    def counted(self) -> tuple[int, int, int]:
        """vLLM's own figures: prompt tokens, generated tokens, requests that run."""
        load = parse(httpx.get(self.engine_url + "/metrics", timeout=10.0, trust_env=False).text)
        assert load is not None
        return load.counters["prompt_tokens_total"], load.counters["generation_tokens_total"], load.running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, vllm_program: str, tiny_chat: Path) -> Iterator[World]:
    """One pool for all tests here, because a start takes a minute."""
    assert tiny_chat.exists()
    ground = Ground(tmp_path_factory.mktemp("spine"))
    ground.claim()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POOLHOUSE_VLLM", vllm_program)
        for name in ("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL"):
            patch.delenv(name, raising=False)
        plan = demo_nodes.plan("vllm", "")
        stack = Stack(ground, port=processes.free_port(), settings=demo.SETTINGS)
        try:
            stack.start()
            made = demo._populate(stack, plan)
            headers = {"authorization": f"Bearer {made['api_key']}"}
            with httpx.Client(base_url=stack.gateway_url, headers=headers, timeout=60.0, trust_env=False) as client:
                yield World(client, made["model"], engine_url(stack.folder))
        finally:
            stack.stop()
            ground.release()


def engine_url(folder: Path) -> str:
    """Where the agent's vLLM listens, from its own command line."""
    (note,) = folder.glob("nodes/*/state/engines/*/process.json")
    pid = json.loads(note.read_text(encoding="ascii"))["pid"]
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return f"http://127.0.0.1:{argv[argv.index('--port') + 1]}"


@pytest.mark.parametrize("max_tokens", [1, 5, 40])
def test_a_plain_answer_is_billed_as_vllm_counted_it(world: World, max_tokens: int) -> None:
    before = world.counted()

    answer = world.request(max_tokens=max_tokens, temperature=0)

    after = world.counted()
    assert answer.status_code == 200, answer.text
    billed = world.record(answer.headers["x-request-id"])["attempts"][0]["billed"]
    usage = answer.json()["usage"]
    assert billed["prompt_tokens"] == usage["prompt_tokens"] == after[0] - before[0]
    assert billed["completion_tokens"] == usage["completion_tokens"] == after[1] - before[1]


def test_a_streamed_answer_is_billed_as_vllm_counted_it(world: World) -> None:
    before = world.counted()

    body = world.body(stream=True, max_tokens=40, temperature=0, stream_options={"include_usage": True})
    with world.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        request_id = answer.headers["x-request-id"]
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]

    after = world.counted()
    usage = json.loads(lines[-2])["usage"]
    assert lines[-1] == "[DONE]"
    attempt = world.record(request_id)["attempts"][0]
    assert attempt["token_source"] != "bound"
    assert attempt["billed"]["prompt_tokens"] == usage["prompt_tokens"] == after[0] - before[0]
    assert attempt["billed"]["completion_tokens"] == usage["completion_tokens"] == after[1] - before[1]


MESSAGES = {
    "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Name prices."}],
    "messages": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "price", "input": {"model": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "two"}]},
    ],
    "max_tokens": 12,
}
RESPONSES = {
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        {"type": "function_call", "call_id": "c1", "name": "price", "arguments": '{"model":"a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "two"},
    ],
    "max_output_tokens": 12,
}


def _is_billed_as_counted(attempt: dict[str, Any], *, prompt: int, completion: int, choices: int = 1) -> None:
    """A model of random weights writes words that do not come apart as they were made, or ends at once."""
    assert (attempt["claimed"]["prompt_tokens"], attempt["claimed"]["completion_tokens"]) == (prompt, completion)
    billed = attempt["billed"]
    if attempt["outcome"] == "empty":
        assert (billed["prompt_tokens"], billed["completion_tokens"]) == (0, 0)
        return
    assert billed["prompt_tokens"] == attempt["counted"]["prompt_tokens"] == prompt
    counted = attempt["counted"]["completion_tokens"]
    assert billed["completion_tokens"] == min(completion, counted + counted // 100 + choices * END_TOKENS)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("path", "fields"), [("messages", MESSAGES), ("responses", RESPONSES)])
def test_other_formats_with_calls_are_billed_as_vllm_counted_them(
    world: World, path: str, fields: dict[str, Any], is_stream: bool
) -> None:
    before = world.counted()

    answer = world.client.post(f"/v1/{path}", json={"model": world.model, "stream": is_stream, **fields})

    after = world.counted()
    assert answer.status_code == 200, answer.text
    attempt = world.record(answer.headers["x-request-id"])["attempts"][0]
    _is_billed_as_counted(attempt, prompt=after[0] - before[0], completion=after[1] - before[1])
    if path == "messages":
        asked = {key: value for key, value in fields.items() if key != "max_tokens"}
        counted = world.client.post("/v1/messages/count_tokens", json={"model": world.model, **asked})
        assert counted.json() == {"input_tokens": after[0] - before[0]}


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": QUESTION},
        {"prompt": [QUESTION, "Who pays?"], "n": 2, "temperature": 0.8, "seed": 3, "logprobs": 2},
        {"prompt": [300, 301, 302], "stream": True},
        {"prompt": [[300, 301], [302]], "stream": True, "logprobs": 1},
    ],
)
def test_texts_are_billed_as_vllm_counted_them(world: World, fields: dict[str, Any]) -> None:
    before = world.counted()

    answer = world.client.post("/v1/completions", json={"model": world.model, "max_tokens": 12, **fields})

    after = world.counted()
    assert answer.status_code == 200, answer.text
    attempt = world.record(answer.headers["x-request-id"])["attempts"][0]
    prompt = (after[0] - before[0]) // fields.get("n", 1)  # vLLM's counter has a prompt once for each of its choices
    texts = fields["prompt"]
    asked = len(texts) if isinstance(texts, list) and not isinstance(texts[0], int) else 1
    choices = asked * fields.get("n", 1)
    _is_billed_as_counted(attempt, prompt=prompt, completion=after[1] - before[1], choices=choices)


def test_an_aborted_stream_is_charged_for_what_was_delivered_and_vllm_stops(world: World) -> None:
    before = world.counted()
    delivered: list[str] = []

    body = world.body(stream=True, max_tokens=400, messages=[{"role": "user", "content": "the " * 30}])
    body |= {"temperature": 1.0, "min_tokens": 390} if "min_tokens" in supported(world) else {}
    with world.client.stream("POST", "/v1/chat/completions", json=body) as answer:
        request_id = answer.headers["x-request-id"]
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                delivered += [choice["delta"].get("content") or "" for choice in json.loads(line[6:])["choices"]]
            if sum(map(bool, delivered)) >= 5:
                break

    waiting.until("vLLM runs nothing", lambda: world.counted()[2] == 0, timeout_s=STOPPED_S)
    stopped = world.counted()
    time.sleep(1.0)
    assert world.counted() == stopped
    attempt = world.record(request_id)["attempts"][0]
    prompt, generated = stopped[0] - before[0], stopped[1] - before[1]
    assert attempt["billed"]["prompt_tokens"] == prompt
    assert 5 <= attempt["billed"]["completion_tokens"] <= generated
    assert float(attempt["cost"]) > 0


def supported(world: World) -> list[str]:
    models = world.client.get("/v1/models").json()["data"]
    return next((one.get("supported_parameters") or [] for one in models if one["id"] == world.model), [])
