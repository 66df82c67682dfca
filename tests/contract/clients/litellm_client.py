"""litellm's client: what a program written with it sees. Prints one JSON object."""

import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices when it is imported

import litellm

NAMES = ("price", "speed")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Returns the {name} of a model.",
            "parameters": {"type": "object", "properties": {"model": {"type": "string"}}, "required": ["model"]},
        },
    }
    for name in NAMES
]
ASK = [{"role": "user", "content": "What is a pool?"}]
BOTH = [{"role": "user", "content": "Tell me price and speed please"}]


def _where(key: str | None = None) -> dict[str, Any]:
    return {
        "model": f"openai/{os.environ['POOL_MODEL']}",
        "api_base": os.environ["POOL_URL"],
        "api_key": key or os.environ["POOL_KEY"],
        "max_retries": 0,
    }


def _calls(message: Any) -> list[dict[str, Any]]:
    return [
        {"name": call.function.name, "arguments": json.loads(call.function.arguments)} for call in message.tool_calls
    ]


def main() -> None:
    litellm.suppress_debug_info = True
    plain = litellm.completion(messages=ASK, **_where())
    pieces = list(litellm.completion(messages=ASK, stream=True, **_where()))
    called = litellm.completion(messages=BOTH, tools=TOOLS, **_where()).choices[0].message
    chunks = list(litellm.completion(messages=BOTH, tools=TOOLS, stream=True, **_where()))
    streamed = litellm.stream_chunk_builder(chunks).choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": f"{call.function.name} 2"} for call in called.tool_calls
    ]
    after = litellm.completion(messages=[*BOTH, called.model_dump(), *results], tools=TOOLS, **_where())
    responses = litellm.responses(input="What is a pool?", **_where())
    try:
        litellm.completion(messages=ASK, **_where("sk-pool-nobody"))
    except litellm.AuthenticationError as error:
        refused = {"status": error.status_code, "message": error.message}
    print(  # noqa: T201  the program's answer
        json.dumps(
            {
                "plain": plain.choices[0].message.content,
                "stream": "".join(piece.choices[0].delta.content or "" for piece in pieces),
                "tools": _calls(called),
                "streamed_tools": _calls(streamed),
                "after_tools": after.choices[0].message.content,
                "responses": responses.output[0].content[0].text,
                "usage": {"completion": plain.usage.completion_tokens},
                "error": refused,
            }
        )
    )


if __name__ == "__main__":
    main()
