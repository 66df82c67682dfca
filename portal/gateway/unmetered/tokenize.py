"""POST /v1/tokenize: a prompt or messages as token ids, by the model's own tokenizer; no node, nothing is charged."""

from typing import Any, Final

from portal.core import clock
from portal.gateway import policy, strict_json
from portal.gateway.admission import Admission, named_model
from portal.gateway.contracts import ModelEntry, Snapshot
from portal.gateway.errors import INVALID_REQUEST, ApiError, invalid, unavailable
from portal.gateway.exchange import Exchange
from portal.gateway.fields import chat, values
from portal.gateway.tokens import TextTooLong, TokenCounters

PATH: Final = "/v1/tokenize"
MAX_TEXT_BYTES: Final = 1_048_576


async def serve(admission: Admission, counters: TokenCounters, exchange: Exchange, snapshot: Snapshot) -> None:
    """Answer behind the door and the limits of the funnel, without its money. Raises ApiError."""
    now = clock.now().timestamp()
    key = admission.door.admit(exchange, snapshot, now=now)
    raw = strict_json.parse_object(await exchange.read_body())
    model, _price = named_model(raw, snapshot, now=now)
    body = _body(raw, model)
    policy.require(key, model=model, has_tools="tools" in body)
    slot = await admission.enter(exchange, key)
    try:
        exchange.promise(slot.headers)
        found = await _ids(counters, model, body)
        answer = {"count": len(found), "max_model_len": model.context_tokens, "tokens": found}
        await exchange.answer(200, answer)
    finally:
        admission.limiter.leave(slot, used_tokens=0)


def _body(raw: dict[str, Any], model: ModelEntry) -> dict[str, Any]:
    if raw.get("messages") is not None and raw.get("prompt") is not None:
        raise invalid("Send prompt or messages, not both.", param="prompt")
    if raw.get("messages") is not None:
        kept = {name: raw[name] for name in ("messages", "tools", "chat_template_kwargs") if name in raw}
        return chat.check(kept, model).body
    if raw.get("prompt") is None:
        raise invalid("prompt or messages are missing.", param="prompt")
    return {"prompt": values.text(raw["prompt"], "prompt")}


async def _ids(counters: TokenCounters, model: ModelEntry, body: dict[str, Any]) -> list[int]:
    if model.tokenizer_sha256 is None or ("messages" in body and model.template_sha256 is None):
        message = f"{model.public_id} has no tokenizer or chat template here, so it cannot be tokenized."
        raise ApiError(400, INVALID_REQUEST, "unsupported_parameter", message, param="model")
    try:
        found = await counters.ids(model, body, longest_bytes=MAX_TEXT_BYTES)
    except TextTooLong as error:
        message = f"The text has {error} bytes; at most {MAX_TEXT_BYTES} are tokenized at a time."
        raise ApiError(413, INVALID_REQUEST, "request_too_large", message) from error
    if found is None:
        raise unavailable("no_capacity", "Texts cannot be tokenized now; retry.")
    return found
