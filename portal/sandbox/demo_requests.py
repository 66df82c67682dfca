"""The demo's requests: what a customer's program would send, over HTTP, and what came back."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
BROKEN = (httpx.TransportError,)


class RequestFailed(RuntimeError):
    """The gateway answered with an error or broke the protocol."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered request."""

    text: str
    usage: dict[str, Any]


def plain(*, gateway_url: str, key: str, model: str, prompt: str, max_tokens: int) -> Answer:
    """Send one request and return its answer. Raises RequestFailed."""
    answer = httpx.post(
        f"{gateway_url}/v1/chat/completions",
        headers={"authorization": f"Bearer {key}"},
        json=_body(model, prompt, max_tokens),
        timeout=_TIMEOUT,
        trust_env=False,
    )
    if answer.status_code != httpx.codes.OK:
        raise RequestFailed(f"{answer.status_code}: {answer.text[:500]}")
    content = answer.json()
    return Answer(text=content["choices"][0]["message"]["content"], usage=content["usage"])


def streamed(*, gateway_url: str, key: str, model: str, prompt: str, max_tokens: int) -> Answer:
    """Send one streamed request, read it to its end and return the whole. Raises RequestFailed."""
    text = ""
    usage: dict[str, Any] = {}
    for event in stream_events(gateway_url=gateway_url, key=key, model=model, prompt=prompt, max_tokens=max_tokens):
        for choice in event.get("choices", []):
            text += choice["delta"].get("content") or ""
        usage = event.get("usage") or usage
    return Answer(text=text, usage=usage)


def is_ready(*, gateway_url: str, key: str, model: str) -> bool:
    """Say whether the gateway process that takes this call has a node for the model."""
    try:
        answer = httpx.get(
            f"{gateway_url}/v1/models",
            headers={"authorization": f"Bearer {key}", "connection": "close"},
            timeout=5.0,
            trust_env=False,
        )
    except httpx.HTTPError:
        return False
    listed = answer.json().get("data", []) if answer.status_code == httpx.codes.OK else []
    return any(entry["id"] == model and entry.get("is_ready") for entry in listed)


def _body(model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    return {"model": model, "max_tokens": max_tokens, "messages": [{"role": "user", "content": prompt}]}


def stream_events(
    *,
    gateway_url: str,
    key: str,
    model: str,
    prompt: str,
    max_tokens: int,
    on_begin: Callable[[str], None] = lambda request: None,
) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed request; `on_begin` gets its id. Raises RequestFailed, one of BROKEN."""
    body = _body(model, prompt, max_tokens) | {"stream": True, "stream_options": {"include_usage": True}}
    headers = {"authorization": f"Bearer {key}"}
    with (
        httpx.Client(timeout=_TIMEOUT, trust_env=False) as client,
        client.stream("POST", f"{gateway_url}/v1/chat/completions", headers=headers, json=body) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            raise RequestFailed(f"{answer.status_code}: {answer.read().decode(errors='replace')[:500]}")
        on_begin(answer.headers.get("x-request-id", ""))
        for line in answer.iter_lines():
            content = line.removeprefix("data: ")
            if content == "[DONE]":
                return
            if line.startswith("data: "):
                event = json.loads(content)
                if "error" in event:
                    raise RequestFailed(f"in the stream: {content[:500]}")
                yield event
    raise RequestFailed("the stream ended without [DONE]")
