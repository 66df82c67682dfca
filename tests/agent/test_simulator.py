"""The simulated engine answers as a real vLLM did: the same fields, statuses and error shapes, exact counts."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from poolhouse_agent.simulate import behaviours
from poolhouse_agent.simulate.server import Options, Server
from poolhouse_agent.simulate.tokens import ChatTokens

TRANSCRIPTS = Path(__file__).parents[1] / "fakes" / "vllm" / "chat"
MODEL = "tiny-chat"
KEY = "k"
QUESTION = [{"role": "user", "content": "Hello gpu node, what is the price?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Client:
    """Speaks to a simulator in this process."""

    def __init__(self, http: aiohttp.ClientSession, server: Server) -> None:
        self.http = http
        self.server = server

    async def send(self, method: str, path: str, body: bytes | None, key: str = KEY) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        async with self.http.request(method, path, data=body, headers=headers) as response:
            return response.status, await response.read()

    async def chat(self, **fields: Any) -> Any:
        body = {"model": MODEL, "messages": QUESTION, **fields}
        status, content = await self.send("POST", "/v1/chat/completions", json.dumps(body).encode())
        assert status == 200, content
        return json.loads(content)

    async def stream(self, **fields: Any) -> list[Any]:
        body = {"model": MODEL, "messages": QUESTION, "stream": True, **fields}
        _, content = await self.send("POST", "/v1/chat/completions", json.dumps(body).encode())
        return events(content)


def events(content: bytes) -> list[Any]:
    lines = [part.removeprefix(b"data: ") for part in content.split(b"\n\n") if part]
    return ["[DONE]" if line == b"[DONE]" else json.loads(line) for line in lines]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    options = Options(model=MODEL, context_tokens=512, max_num_seqs=4, tokens_per_second=100_000, api_key=KEY)
    server = Server(options, behaviour=lambda: behaviours.HONEST)
    runner = web.AppRunner(server.application(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    async with aiohttp.ClientSession(base_url=f"http://127.0.0.1:{port}") as http:
        yield Client(http, server)
    await runner.cleanup()


def transcript(name: str) -> dict[str, Any]:
    return json.loads((TRANSCRIPTS / f"{name}.json").read_text(encoding="utf-8"))


def raw_body(request: dict[str, Any]) -> bytes | None:
    if "json" in request:
        return json.dumps(request["json"]).encode()
    if "raw_body" in request:
        return request["raw_body"].encode().decode("unicode_escape").encode("latin-1")
    return None


def shape(value: Any) -> Any:
    """Names and types, without the values."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


ERRORS = [
    "auth-wrong", "err-unknown-model", "err-unknown-model-stream", "err-invalid-utf8", "err-not-an-object",
    "err-missing-messages", "err-messages-type", "err-empty-messages", "err-n-zero", "err-temperature",
    "err-temperature-type", "err-top-p", "err-top-logprobs", "err-max-tokens-zero", "err-max-tokens-negative",
    "err-max-tokens-too-large", "err-stream-options-without-stream", "err-cache-salt-empty", "err-bad-json-schema",
    "err-not-found", "err-method",
]  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
async def test_errors_are_vllms_to_the_letter(client: Client, name: str) -> None:
    recorded = transcript(name)
    request = recorded["request"]
    key = "wrong" if name == "auth-wrong" else KEY

    status, content = await client.send(request["method"], request["path"], raw_body(request), key)

    assert status == recorded["response"]["status"]
    assert json.loads(content) == recorded["response"]["json"]


@pytest.mark.parametrize(
    "name", ["err-context-too-long", "err-context-slightly-too-long", "err-n-huge", "err-invalid-json"]
)
async def test_other_errors_have_vllms_shape(client: Client, name: str) -> None:
    recorded = transcript(name)
    request = recorded["request"]

    status, content = await client.send(request["method"], request["path"], raw_body(request))

    assert status == recorded["response"]["status"]
    error, wanted = json.loads(content)["error"], recorded["response"]["json"]["error"]
    assert (error["type"], error["code"]) == (wanted["type"], wanted["code"])
    assert error["message"][:40] == wanted["message"][:40]


@pytest.mark.parametrize("name", ["chat-basic", "chat-n2", "chat-logprobs", "chat-unknown-field", "err-bad-role"])
async def test_answers_have_vllms_fields(client: Client, name: str) -> None:
    recorded = transcript(name)

    _, content = await client.send("POST", "/v1/chat/completions", raw_body(recorded["request"]))

    made, wanted = json.loads(content), recorded["response"]["json"]
    assert set(made) | {"metrics"} == set(wanted)
    assert set(made["choices"][0]) == set(wanted["choices"][0])
    assert set(made["choices"][0]["message"]) == set(wanted["choices"][0]["message"])
    assert shape(made["choices"][0]["logprobs"]) == shape(wanted["choices"][0]["logprobs"])
    assert len(made["choices"]) == len(wanted["choices"])
    assert {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details"} <= set(made["usage"])


@pytest.mark.parametrize("name", ["stream-plain", "stream-include-usage", "stream-continuous-usage", "stream-logprobs"])
async def test_streams_have_vllms_chunks(client: Client, name: str) -> None:
    recorded = transcript(name)
    wanted = events((TRANSCRIPTS / f"{name}.sse").read_bytes())

    _, content = await client.send("POST", "/v1/chat/completions", raw_body(recorded["request"]))

    made = events(content)
    assert set(made[0]) == set(wanted[0])
    assert made[0]["choices"] == wanted[0]["choices"]
    assert set(made[1]) == set(wanted[1])
    assert set(made[1]["choices"][0]) == set(wanted[1]["choices"][0])
    assert made[-1] == wanted[-1] == "[DONE]"
    assert (made[-2]["choices"] == []) is (wanted[-2]["choices"] == [])
    last = -3 if wanted[-2]["choices"] == [] else -2
    assert {"finish_reason", "stop_reason"} <= set(made[last]["choices"][0])


async def test_several_choices_interleave_with_one_usage(client: Client) -> None:
    made = await client.stream(n=2, max_tokens=3, stream_options={"include_usage": True})

    indexes = [chunk["choices"][0]["index"] for chunk in made[:-2]]
    assert indexes == [0, 1, 0, 1, 0, 1, 0, 1]
    assert made[-2]["usage"]["completion_tokens"] == 6


async def test_counts_are_the_tokenizers(client: Client) -> None:
    tokens = ChatTokens()

    made = await client.chat(return_token_ids=True)

    choice = made["choices"][0]
    assert made["usage"]["prompt_tokens"] == len(tokens.prompt_ids(QUESTION, None)) == len(made["prompt_token_ids"])
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"] == [*tokens.encode(choice["message"]["content"]), tokens.end_id]
    assert made["usage"]["completion_tokens"] == len(choice["token_ids"])


async def test_a_length_limit_counts_no_end_token(client: Client) -> None:
    made = await client.chat(max_tokens=7)

    assert made["choices"][0]["finish_reason"] == "length"
    assert made["usage"]["completion_tokens"] == 7


async def test_ignore_eos_fills_the_limit(client: Client) -> None:
    assert (await client.chat(max_tokens=300, ignore_eos=True))["usage"]["completion_tokens"] == 300


async def test_the_prompt_and_the_answer_share_the_context(client: Client) -> None:
    made = await client.chat(ignore_eos=True)

    assert made["usage"]["total_tokens"] == 512


async def test_a_stop_string_is_counted_and_cut_off(client: Client) -> None:
    whole = (await client.chat(max_tokens=100))["choices"][0]["message"]["content"]
    stop = whole[10:14]

    made = await client.chat(max_tokens=100, stop=[stop])

    choice = made["choices"][0]
    assert choice["message"]["content"] == whole[: whole.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


async def test_the_same_seed_gives_the_same_answer(client: Client) -> None:
    first, second, other = [await client.chat(seed=seed) for seed in (3, 3, 4)]

    assert first["choices"] == second["choices"]
    assert first["choices"] != other["choices"]


async def test_text_is_whole_characters_whatever_the_tokens(client: Client) -> None:
    made = await client.stream(
        messages=[{"role": "user", "content": "x"}], structured_outputs={"choice": ["héllo 🚀 ok"]}
    )

    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in made[1:-1]]
    assert "".join(pieces) == "héllo 🚀 ok"
    assert "" in pieces[:-1]


async def test_a_repeated_prefix_is_cached_per_salt(client: Client) -> None:
    long = [{"role": "user", "content": "one two three four five six seven eight nine ten " * 4}]

    async def cached(**fields: Any) -> int:
        made = await client.chat(messages=long, max_tokens=2, **fields)
        return int(made["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert [await cached(), await cached(), await cached(cache_salt="a"), await cached(cache_salt="a")] == [
        0, 80, 0, 80,
    ]  # fmt: skip


async def test_a_tool_is_called_when_the_question_is_about_it(client: Client) -> None:
    made = await client.chat(
        messages=[{"role": "user", "content": "What is the weather in Paris?"}], tools=[WEATHER], tool_choice="auto"
    )

    choice = made["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    assert call["function"]["name"] == "get_weather"
    assert isinstance(json.loads(call["function"]["arguments"])["city"], str)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
async def test_a_forced_tool_is_called_in_a_stream(client: Client, choice: Any) -> None:
    made = await client.stream(tools=[WEATHER], tool_choice=choice)

    calls = [call for chunk in made if chunk != "[DONE]" for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "get_weather"
    assert [("name" in call["function"]) for call in calls[1:]] == [False] * (len(calls) - 1)
    assert set(json.loads("".join(call["function"]["arguments"] for call in calls))) == {"city"}


async def test_no_tool_is_called_when_none_is_wanted(client: Client) -> None:
    for fields in ({"tool_choice": "none"}, {"messages": [{"role": "user", "content": "Sing a song."}]}):
        made = await client.chat(**{"tools": [WEATHER], **fields})
        assert made["choices"][0]["message"]["content"]


async def test_after_a_tools_result_comes_text(client: Client) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    conversation = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]

    made = await client.chat(messages=conversation, tools=[WEATHER])

    assert made["choices"][0]["message"]["content"]


async def test_structured_output_conforms_to_its_schema(client: Client) -> None:
    import jsonschema

    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 18, "maximum": 20},
            "kind": {"enum": ["a", "b"]}, "tags": {"type": "array", "items": {"type": "string"}, "minItems": 3},
            "inner": {"$ref": "#/$defs/inner"}, "maybe": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        },
        "$defs": {"inner": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
        "required": ["name", "age", "kind", "tags", "inner", "maybe"], "additionalProperties": False,
    }  # fmt: skip
    wanted = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}

    for seed in range(5):
        made = await client.chat(response_format=wanted, seed=seed)
        jsonschema.validate(json.loads(made["choices"][0]["message"]["content"]), schema)


async def test_counters_add_up(client: Client) -> None:
    first = (await client.chat(max_tokens=7))["usage"]
    second = (await client.chat(max_tokens=9, seed=5))["usage"]

    _, page = await client.send("GET", "/metrics", None)

    figures = dict(line.rsplit(" ", 1) for line in page.decode().splitlines() if line.startswith("vllm:"))
    label = f'{{engine="0",model_name="{MODEL}"}}'
    assert float(figures[f"vllm:prompt_tokens_total{label}"]) == first["prompt_tokens"] + second["prompt_tokens"]
    assert float(figures[f"vllm:generation_tokens_total{label}"]) == 16
    assert float(figures[f"vllm:num_requests_running{label}"]) == 0


async def test_every_path_wants_the_key(client: Client) -> None:
    assert (await client.send("GET", "/health", None, "wrong"))[0] == 401
    assert (await client.send("GET", "/v1/models", None, "wrong"))[0] == 401


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("What is 12 * 12?", "12 * 12 is 144."),
        ("count to 5", "1, 2, 3, 4, 5."),
        ("Hello", "Hello"),
        ("About GPU pools", "GPU"),
    ],
)
async def test_answers_can_be_read(client: Client, question: str, wanted: str) -> None:
    texts = [
        (await client.chat(messages=[{"role": "user", "content": question}], seed=seed))["choices"][0]["message"][
            "content"
        ]
        for seed in range(3)
    ]

    assert any(wanted in text for text in texts)


def test_unknown_behaviours_are_named() -> None:
    with pytest.raises(ValueError, match="unknown behaviour 'nice'"):
        behaviours.find("nice")
    assert behaviours.find("inflate-7").completion_factor == 7
    assert behaviours.find("inflate-prompt-2").prompt_factor == 2
