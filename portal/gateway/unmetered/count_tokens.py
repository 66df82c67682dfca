"""POST /v1/messages/count_tokens: the prompt's tokens by the model's own tokenizer and template; nothing is charged."""

from typing import Any, Final

from portal.core import clock
from portal.gateway import policy, strict_json
from portal.gateway.admission import Admission, find_model
from portal.gateway.bounds import PromptMeasure
from portal.gateway.contracts import ModelEntry, Snapshot
from portal.gateway.dialects.messages import request
from portal.gateway.dialects.messages.wording import MessagesWording
from portal.gateway.endpoints.messages import request_id_header
from portal.gateway.errors import INVALID_REQUEST, ApiError, unavailable
from portal.gateway.exchange import Exchange

PATH: Final = "/v1/messages/count_tokens"


def speak(exchange: Exchange) -> None:
    """Let the exchange put its errors in Anthropic's words."""
    exchange.speaks(MessagesWording(exchange.request_id), request_id_header(exchange.request_id))


async def serve(admission: Admission, exchange: Exchange, snapshot: Snapshot) -> None:
    """Answer behind the door and the limits of the funnel, without its money. Raises ApiError."""
    now = clock.now().timestamp()
    key = admission.door.admit(exchange, snapshot, now=now)
    raw = strict_json.parse_object(await exchange.read_body())
    model, _price = find_model(raw, snapshot, task="chat", now=now)
    asked = request.to_counted_chat(raw).checked(model, renamed=request.RENAMED)
    policy.require(key, model=model, has_tools=asked.has_tools)
    slot = await admission.enter(exchange, key)
    try:
        exchange.promise(slot.headers)
        await exchange.answer(200, {"input_tokens": await _count(admission.measure, model, asked.body)})
    finally:
        admission.limiter.leave(slot, used_tokens=0)


async def _count(measure: PromptMeasure, model: ModelEntry, body: dict[str, Any]) -> int:
    if model.tokenizer_sha256 is None or model.template_sha256 is None:
        message = f"{model.public_id} has no tokenizer and chat template here, so its tokens cannot be counted."
        raise ApiError(400, INVALID_REQUEST, "unsupported_parameter", message, param="model")
    counted = await measure.prompt_tokens(model, body)
    if counted is None:
        raise unavailable("no_capacity", "Tokens cannot be counted now; retry.")
    return counted
