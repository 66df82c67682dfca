"""The answer that comes in one piece: read within bounds, checked, rewritten, settled, then written."""

import time
from typing import Any, Final

from portal.core.money import decimal_text
from portal.gateway import failures, rewrite
from portal.gateway.contracts import Attempt, Settled
from portal.gateway.failures import Ending
from portal.gateway.relay.calls import Call, Settle
from portal.gateway.relay.upstream import Upstream
from portal.gateway.tunnel.streams import NodeSilent

_MIN_ANSWER_BYTES: Final = 262_144
_BYTES_PER_TOKEN: Final = 512
_LOGPROB_BYTES: Final = 256
_SLOWEST_TOKENS_PER_S: Final = 4.0
_BODY_TIMEOUT_S: Final = 10.0


async def relay(call: Call, attempt: Attempt, upstream: Upstream, settle: Settle) -> None:
    """Carry a whole answer. Raises NodeFailed or CustomerGone, both before anything was written."""
    body = await _read(call, upstream)
    value = rewrite.parse(body)
    rewrite.take_claim(value, attempt.claim)
    generated = call.reader.answer(value, call.names)
    if generated.is_empty:
        raise failures.empty(Ending(pieces=(generated.choices,)))
    attempt.first_token_at = time.time()
    for index, text in generated.texts:
        attempt.deliver(text, choice=index)
    attempt.finished_choices = generated.finished
    await _answer(call, generated.choices, await settle(), node=attempt.node.public_id)


async def end_empty(call: Call, ending: Ending, settled: Settled, *, node: str) -> None:
    """Give the customer an answer without text, which costs nothing."""
    await _answer(call, [row for piece in ending.pieces for row in piece], settled, node=node)


async def _answer(call: Call, choices: list[dict[str, Any]], settled: Settled, *, node: str) -> None:
    headers = (
        (b"x-pool-node", node.encode()),
        (b"x-pool-cost", decimal_text(settled.charge_nano).encode()),
    )
    await call.exchange.answer(200, call.dialect.whole(choices, settled), headers)


async def _read(call: Call, upstream: Upstream) -> bytes:
    per_token = _BYTES_PER_TOKEN + _LOGPROB_BYTES * (1 + (call.asked.logprobs or 0))
    longest = _MIN_ANSWER_BYTES + call.facts.output_bound_tokens * per_token
    timeout_s = call.facts.model.first_token_timeout_s + call.asked.output_tokens / _SLOWEST_TOKENS_PER_S
    pieces: list[bytes] = []
    size = 0
    try:
        while (piece := await upstream.read(timeout_s)) is not None:
            size += len(piece)
            if size > longest:
                raise failures.broke("answer_too_large")
            pieces.append(piece)
            timeout_s = _BODY_TIMEOUT_S
    except NodeSilent as error:
        raise failures.silent("answer") from error
    return b"".join(pieces)
