"""langchain-openai: what a program written with it sees. Prints one JSON object."""

import json
import os
from typing import Any

import openai
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def price(model: str) -> str:
    """Return the price of a model."""
    return f"{model} 2"


@tool
def speed(model: str) -> str:
    """Return the speed of a model."""
    return f"{model} 2"


def _chat(key: str | None = None, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=os.environ["POOL_MODEL"],
        base_url=os.environ["POOL_URL"],
        api_key=key or os.environ["POOL_KEY"],
        max_retries=0,
        **more,
    )


def _calls(message: AIMessage) -> list[dict[str, Any]]:
    return [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls]


def main() -> None:
    ask, both = [HumanMessage("What is a pool?")], [HumanMessage("Tell me price and speed please")]
    plain = _chat().invoke(ask)
    pieces = list(_chat(stream_usage=True).stream(ask))
    armed = _chat().bind_tools([price, speed])
    called = armed.invoke(both)
    streamed = None
    for piece in armed.stream(both):
        streamed = piece if streamed is None else streamed + piece
    results = [ToolMessage(f"{call['name']} 2", tool_call_id=call["id"]) for call in called.tool_calls]
    after = armed.invoke([*both, called, *results])
    responses = _chat(use_responses_api=True).invoke(ask)
    try:
        _chat("sk-pool-nobody").invoke(ask)
    except openai.AuthenticationError as error:
        refused = {"status": error.status_code, "message": error.message}
    print(  # noqa: T201  the program's answer
        json.dumps(
            {
                "plain": plain.content,
                "stream": "".join(piece.content for piece in pieces),
                "tools": _calls(called),
                "streamed_tools": _calls(streamed),
                "after_tools": after.content,
                "responses": responses.text,
                "usage": {"completion": plain.usage_metadata["output_tokens"]},
                "error": refused,
            }
        )
    )


if __name__ == "__main__":
    main()
