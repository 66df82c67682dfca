"""Tokens are counted with the model's own tokenizer and template, or not at all."""

import asyncio
from pathlib import Path

import pytest
from django.db import OperationalError
from tokenizers import Tokenizer

from portal.gateway.tokens import Counts, Delivered, TokenCounters
from tests.factories.gateway import model_entry

DEMO = Path(__file__).parents[3] / "portal" / "sandbox" / "demo_model"
FILES = {"tokenizer": DEMO / "tokenizer.json", "template": DEMO / "chat_template.jinja"}
MODEL = model_entry(tokenizer_sha256="tokenizer", template_sha256="template")
BODY = {"messages": [{"role": "user", "content": "How deep is the sea?"}]}
PROMPT = "<|im_start|>user\nHow deep is the sea?<|im_end|>\n<|im_start|>assistant\n"
TOKENIZER = Tokenizer.from_file(str(FILES["tokenizer"]))


def _length(text: str) -> int:
    return len(TOKENIZER.encode(text, add_special_tokens=False).ids)


def _run(work, **arguments):
    async def whole():
        counters = TokenCounters(**{"read_artefact": lambda sha256: FILES[sha256].read_bytes()} | arguments)
        try:
            return await work(counters)
        finally:
            counters.stop()

    return asyncio.run(whole())


def test_a_prompt_is_counted_as_the_template_renders_it():
    async def work(counters):
        return await counters.prompt_tokens(MODEL, BODY), await counters.rendered_bytes(MODEL, BODY)

    assert _run(work) == (_length(PROMPT), len(PROMPT.encode()))


def test_tools_are_part_of_the_prompt():
    tools = [{"type": "function", "function": {"name": "depth", "parameters": {"type": "object"}}}]

    async def work(counters):
        return await counters.prompt_tokens(MODEL, BODY | {"tools": tools})

    assert _run(work) > _length(PROMPT) + 20


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"prompt": "The sea"}, _length("The sea")),
        ({"prompt": ["The sea", "is deep"]}, _length("The sea") + _length("is deep")),
        ({"prompt": [5, 6, 7]}, 3),
        ({"prompt": [[5, 6], [7]]}, 3),
        ({"input": "The sea"}, _length("The sea")),
    ],
)
def test_bare_prompts_are_counted_each(body, expected):
    async def work(counters):
        return await counters.prompt_tokens(MODEL, body)

    assert _run(work) == expected


def test_choices_are_counted_each_and_each_end_has_its_tokens():
    async def work(counters):
        return await counters.count(MODEL, BODY | {"stop": ["END", "\n\n"]}, Delivered(["The sea", "is deep"], 2))

    stop = max(_length("END"), _length("\n\n"))
    assert _run(work) == Counts(_length(PROMPT), _length("The sea") + _length("is deep"), 2 * (1 + stop))


def test_a_prompt_counted_before_is_not_counted_again():
    async def work(counters):
        return await counters.count(
            MODEL, {"messages": "nothing a template could render"}, Delivered(["a"], 1), prompt=9
        )

    assert _run(work).prompt == 9


def test_a_template_that_refuses_leaves_the_count_to_the_bound():
    async def work(counters):
        whole = await counters.count(MODEL, {"messages": [{"role": "user"}] * 2 + [None]}, Delivered(["a"], 1))
        return whole, await counters.prompts(MODEL, [BODY, {"messages": [None]}])

    assert _run(work) == (None, [_length(PROMPT), None])


def test_a_full_queue_counts_nothing():
    async def work(counters):
        return await counters.prompt_tokens(MODEL, BODY)

    assert _run(work, queue=0) is None


def test_without_a_tokenizer_nothing_is_counted():
    bare = model_entry()

    async def work(counters):
        return (
            await counters.prompt_tokens(bare, BODY),
            await counters.count(bare, BODY, Delivered(["a"], 1)),
            await counters.each(bare, ["a"]),
            await counters.prompts(bare, [BODY]),
            await counters.rendered_bytes(bare, BODY),
        )

    assert _run(work) == (None, None, None, None, None)


def test_an_artefact_is_read_once_and_a_missing_one_is_not_asked_for_all_the_time():
    asked: list[str] = []

    def read(sha256: str) -> bytes | None:
        asked.append(sha256)
        return None if sha256 == "template" else FILES[sha256].read_bytes()

    async def work(counters):
        for _ in range(3):
            await counters.each(MODEL, ["a"])
            assert await counters.prompt_tokens(MODEL, BODY) is None

    _run(work, read_artefact=read)

    assert asked == ["tokenizer", "template"]


def test_a_database_that_is_away_only_means_no_count():
    def read(sha256: str) -> bytes:
        raise OperationalError("away")

    async def work(counters):
        return await counters.prompt_tokens(MODEL, BODY)

    assert _run(work, read_artefact=read) is None


@pytest.mark.parametrize("length", [20, 5_000], ids=["short", "long"])
def test_a_prompt_that_comes_back_has_the_count_it_had(length):
    body = {"messages": [{"role": "user", "content": "The sea. " * (length // 9)}]}
    rendered = PROMPT.replace("How deep is the sea?", body["messages"][0]["content"])

    async def work(counters):
        return [await counters.count(MODEL, body, Delivered(["The sea"], 1)) for _ in range(3)]

    assert _run(work) == [Counts(_length(rendered), _length("The sea"), 1)] * 3


def test_the_same_words_by_another_role_or_with_tools_are_another_prompt():
    system = {"messages": [{"role": "system", "content": "How deep is the sea?"}]}
    tools = [{"type": "function", "function": {"name": "depth", "parameters": {"type": "object"}}}]

    async def work(counters):
        first = await counters.count(MODEL, BODY, Delivered([], 0))
        second = await counters.count(MODEL, system, Delivered([], 0))
        third = await counters.count(MODEL, BODY | {"tools": tools}, Delivered([], 0))
        return first.prompt, second.prompt, third.prompt

    first, second, third = _run(work)
    assert first == _length(PROMPT)
    assert second == _length(PROMPT.replace("user", "system", 1))
    assert third > first + 20


def test_a_template_that_prints_the_time_is_rendered_each_time(monkeypatch):
    template = b"{{ strftime_now('%f') }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
    clock = iter(["1", "1 2", "1 2 3"])
    monkeypatch.setattr("portal.catalog.rules.bounded_jinja.strftime_at", lambda now: lambda text: next(clock))

    async def work(counters):
        return [(await counters.count(MODEL, BODY, Delivered([], 0))).prompt for _ in range(3)]

    counted = _run(work, read_artefact=lambda sha256: template if sha256 == "template" else FILES[sha256].read_bytes())

    assert counted == [_length(text + "How deep is the sea?") for text in ("1", "1 2", "1 2 3")]
