"""The HTTP side of the simulator: vLLM's routes, a key (which guards all of them), its queue limit, its answers."""

import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from poolhouse_agent.simulate import chat, faults, texts, validation, vectors
from poolhouse_agent.simulate.answer import Answer, Terms
from poolhouse_agent.simulate.behaviours import Behaviour
from poolhouse_agent.simulate.engine import Engine
from poolhouse_agent.simulate.validation import Refused
from poolhouse_agent.simulate.vectors import VectorRequest

_CHARACTERS_PER_TOKEN = 13
_BUSY = (
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
)
VERSION = "0.32.0"
MAX_BODY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """How the simulated server was started."""

    model: str
    context_tokens: int
    max_num_seqs: int
    tokens_per_second: int
    api_key: str = ""
    embedding_dimensions: int = 0
    version: str = VERSION


class Server:
    """Routes and admission; `behaviour` is asked anew for every request."""

    def __init__(self, options: Options, *, behaviour: Callable[[], Behaviour]) -> None:
        self._options = options
        self._behaviour = behaviour
        self.engine = Engine(model=options.model, max_num_seqs=options.max_num_seqs)
        self._started_at = int(time.time())

    def application(self) -> web.Application:
        """The aiohttp application."""
        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        application.add_routes([
            web.get("/health", self._health),
            web.get("/version", self._version),
            web.get("/metrics", self._metrics),
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self._chat),
            web.post("/v1/completions", self._texts),
            web.post("/v1/embeddings", self._vectors),
            web.post("/tokenize", self._tokenize),
        ])  # fmt: skip
        return application

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
        key = self._options.api_key
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key and not hmac.compare_digest(given.encode(), key.encode()):
            return web.json_response({"error": "Unauthorized"}, status=401)
        try:
            response: web.StreamResponse = await handler(request)
        except Refused as refused:
            return _json(refused.status, refused.body, request)
        except web.HTTPNotFound:
            return _json(404, {"detail": "Not Found"}, request)
        except web.HTTPMethodNotAllowed:
            return _json(405, {"detail": "Method Not Allowed"}, request)
        return response

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": self._options.version})

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(text=self.engine.counters.page(), content_type="text/plain")

    async def _models(self, _request: web.Request) -> web.Response:
        entry = {
            "id": self._options.model,
            "object": "model",
            "created": self._started_at,
            "owned_by": "vllm",
            "root": self._options.model,
            "parent": None,
            "max_model_len": self._options.context_tokens,
        }
        return web.json_response({"object": "list", "data": [entry]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        tokens = self.engine.tokens
        if "messages" in body:
            ids = tokens.prompt_ids(body["messages"], body.get("tools"))
        else:
            ids = tokens.encode(str(body.get("prompt", "")))
        length = self._options.context_tokens
        return web.json_response({"count": len(ids), "max_model_len": length, "tokens": ids, "token_strs": None})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self._require(is_embedding=False)
        wanted = validation.parse(await request.read(), served_name=self._options.model)
        is_probe = wanted.max_tokens == 1 and not wanted.is_stream
        behaviour = faults.HONEST if is_probe else self._behaviour()  # a bad node passes its own agent's probe
        answered = await faults.instead_of_an_answer(request, behaviour)
        if answered is not None:
            return answered
        characters = sum(len(str(message.get("content") or "")) for message in wanted.messages)
        self._check_characters(characters)
        ids = self.engine.prompt_ids(wanted)
        budget = self._admit(wanted, [ids])
        return await self._answer(
            request, wanted, chat.begin(wanted, self._terms(behaviour), prompt_ids=ids, budget=budget)
        )

    async def _texts(self, request: web.Request) -> web.StreamResponse:
        self._require(is_embedding=False)
        wanted, given = validation.parse_text(await request.read(), served_name=self._options.model)
        behaviour = self._behaviour()
        answered = await faults.instead_of_an_answer(request, behaviour)
        if answered is not None:
            return answered
        prompts = self._ids(given)
        budget = self._admit(wanted, prompts)
        return await self._answer(
            request, wanted, texts.begin(wanted, self._terms(behaviour), prompts=prompts, budget=budget)
        )

    async def _vectors(self, request: web.Request) -> web.StreamResponse:
        self._require(is_embedding=True)
        body = validation.parse_vectors(await request.read(), served_name=self._options.model)
        behaviour = self._behaviour()
        answered = await faults.instead_of_an_answer(request, behaviour)
        if answered is not None:
            return answered
        inputs = self._ids(body["input"])
        for ids in inputs:
            self._check_length(len(ids) - 1)  # nothing is generated: a text may fill the whole context
        full = self._options.embedding_dimensions
        length = body.get("dimensions") or full
        if not 1 <= length <= full:
            message = f"dimensions must be between 1 and {full} (received dimensions={length})."
            raise validation.bad_request(message)
        wanted = VectorRequest(inputs, is_base64=body.get("encoding_format") == "base64", dimensions=length)
        async with self.engine.place(len(inputs)):
            return _json(200, vectors.answer(wanted, self._terms(behaviour)), request)

    def _require(self, *, is_embedding: bool) -> None:
        """An engine has the routes of its model's task only."""
        if bool(self._options.embedding_dimensions) is not is_embedding:
            raise Refused(404, {"detail": "Not Found"})

    def _terms(self, behaviour: Behaviour) -> Terms:
        return Terms(self.engine, behaviour, self._options.tokens_per_second)

    def _ids(self, prompts: list[Any]) -> list[list[int]]:
        self._check_characters(max(len(one) if isinstance(one, str) else 0 for one in prompts))
        tokens = self.engine.tokens
        made = [tokens.encode(one) if isinstance(one, str) else one for one in prompts]
        if any(type(number) is not int or not 0 <= number < tokens.vocabulary for ids in made for number in ids):
            raise validation.bad_request("Token id is out of vocabulary", param="prompt")
        return made

    def _check_characters(self, characters: int) -> None:
        limit = self._options.context_tokens
        longest = limit * _CHARACTERS_PER_TOKEN
        if characters > longest:
            bound = f"(more than {longest} characters, which is the upper bound for {limit} input tokens)"
            raise _too_long(limit, f"{characters} characters {bound}", "input_text", characters)

    def _check_length(self, tokens: int) -> None:
        limit = self._options.context_tokens
        if tokens >= limit:
            found = f"at least {limit + 1} input tokens, which exceeds this limit even without any output tokens"
            raise _too_long(limit, found, "input_tokens", limit + 1)

    def _admit(self, wanted: validation.ChatRequest, prompts: list[list[int]]) -> int:
        """Return how many tokens each choice may have. Raises Refused."""
        limit, longest = self._options.context_tokens, max(map(len, prompts))
        self._check_length(longest)
        if wanted.max_tokens is not None and wanted.max_tokens > limit:
            message = f"max_tokens={wanted.max_tokens} cannot be greater than max_model_len={limit}. "
            message += "Please request fewer output tokens."
            raise validation.bad_request(message, param="max_tokens", value=wanted.max_tokens)
        if not self.engine.has_room(wanted.choices * len(prompts)):
            self.engine.counters.rejections += 1
            raise validation.failure(503, _BUSY, "Service Unavailable")
        return min(wanted.max_tokens or limit, limit - longest)

    async def _answer(self, request: web.Request, wanted: validation.ChatRequest, answer: Answer) -> web.StreamResponse:
        async with self.engine.place(len(answer.plans)):
            if wanted.is_stream:
                return await self._stream(request, answer)
            return _json(200, await answer.whole(), request)

    async def _stream(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"content-type": "text/event-stream; charset=utf-8", **_request_id(request)}
        )
        await response.prepare(request)
        try:
            async for part in answer.events():
                await response.write(part)
        except faults.Broken:
            if request.transport is not None:
                request.transport.abort()
            return response
        await response.write_eof()
        return response


def _too_long(limit: int, found: str, param: str, value: int) -> Refused:
    message = f"This model's maximum context length is {limit} tokens. However, your prompt contains {found}. "
    return validation.bad_request(message + "Please reduce the length of the input prompt.", param=param, value=value)


def _request_id(request: web.Request) -> dict[str, str]:
    return {"x-request-id": request.headers.get("x-request-id") or secrets.token_hex(16)}


def _json(status: int, body: Any, request: web.Request) -> web.Response:
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    return web.Response(status=status, body=content, content_type="application/json", headers=_request_id(request))
