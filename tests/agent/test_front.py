"""The front lets known paths and fields through, and nothing that reaches into the owner's machine or network."""

import json
from typing import Any

import pytest
from poolhouse_agent import front
from poolhouse_agent.errors import RequestRefused
from poolhouse_agent.protocol.frames import RequestHead

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hi"}]


def head(path: str = CHAT, method: str = "POST") -> RequestHead:
    return RequestHead(method=method, path=path, model="acme/demo", attempt="a/1", nonce="00")


def admit(body: Any, **place: str) -> front.Call:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return front.admit(head(**place), raw, served_name="served")


def refusal(body: Any, **place: str) -> str:
    with pytest.raises(RequestRefused) as raised:
        admit(body, **place)
    return raised.value.code


def test_the_served_name_takes_the_models_place() -> None:
    call = admit({"model": "acme/demo", "messages": MESSAGES, "temperature": 0.5})

    assert json.loads(call.body or b"") == {"model": "served", "messages": MESSAGES, "temperature": 0.5}
    assert (call.method, call.path) == ("POST", CHAT)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/invocations"), ("GET", "/metrics"), ("GET", "/health"), ("POST", "/tokenize"),
        ("POST", "/v1/responses"),
        ("POST", "/collective_rpc"), ("POST", "/scale_elastic_ep"), ("POST", "/sleep"), ("GET", CHAT), ("DELETE", CHAT),
        ("POST", "/v1/chat/completions/"), ("POST", "//v1/chat/completions"), ("POST", "/v1/../invocations"),
        ("POST", "http://169.254.169.254/"), ("POST", "/v1/chat/completions?x=1"), ("POST", ""), ("post", CHAT),
    ],
)  # fmt: skip
def test_other_paths_are_refused(method: str, path: str) -> None:
    assert refusal({"messages": MESSAGES}, path=path, method=method) == "path_refused"


@pytest.mark.parametrize(
    "field",
    ["prompt_logprobs", "echo", "priority", "chat_template", "kv_transfer_params", "mm_processor_kwargs", "documents",
     "add_generation_prompt", "logits_processors", "guided_regex", "vllm_xargs", "best_of", "use_beam_search",
     "user", "__proto__"],
)  # fmt: skip
def test_unknown_fields_are_refused(field: str) -> None:
    assert refusal({"messages": MESSAGES, field: 1}) == "field_refused"


@pytest.mark.parametrize(
    "field",
    [
        "tools",
        "tool_choice",
        "response_format",
        "structured_outputs",
        "top_k",
        "cache_salt",
        "stream_options",
        "n",
        "seed",
    ],
)
def test_fields_of_the_api_pass(field: str) -> None:
    call = admit({"messages": MESSAGES, field: 1})

    assert json.loads(call.body or b"")[field] == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"text"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert refusal(body) == "field_refused"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}},
        {"type": "image_url", "image_url": "https://example.com/x.png"},
        {"type": "video_url", "video_url": {"url": "file:///etc/passwd"}},
        {"type": "text", "text": "x", "audio_url": {"url": "http://10.0.0.1/"}},
        {"type": "image_url", "image_url": {}},
        {"type": "image_url", "image_url": None},
    ],
)
def test_media_that_would_be_fetched_is_refused(part: dict[str, Any]) -> None:
    assert refusal({"messages": [{"role": "user", "content": [part]}]}) == "field_refused"


def test_embedded_media_passes() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    assert admit({"messages": [{"role": "user", "content": [part]}]}).body


def test_template_options_are_limited_to_thinking() -> None:
    assert refusal({"messages": MESSAGES, "chat_template_kwargs": {"tools": []}}) == "field_refused"
    assert admit({"messages": MESSAGES, "chat_template_kwargs": {"enable_thinking": False}}).body


def test_more_than_eight_choices_are_refused() -> None:
    assert refusal({"messages": MESSAGES, "n": 9}) == "field_refused"
    assert admit({"messages": MESSAGES, "n": 8}).body


def test_the_list_of_models_carries_no_body() -> None:
    call = admit(b"ignored", path="/v1/models", method="GET")

    assert call == front.Call("GET", "/v1/models", None)


def test_a_lone_surrogate_stays_an_escape() -> None:
    call = admit(b'{"messages": [{"role": "user", "content": "\\ud800"}]}')

    assert b"\\ud800" in (call.body or b"")
