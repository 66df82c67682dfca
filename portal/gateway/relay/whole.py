"""The answer that comes in one piece: read within bounds, checked, rewritten, settled, then written."""

import time
from typing import Any

from portal.core.money import decimal_text
from portal.gateway import failures, rewrite
from portal.gateway.contracts import Attempt, Settled
from portal.gateway.failures import Ending
from portal.gateway.relay.calls import Call, Settle
from portal.gateway.relay.upstream import Upstream
from portal.gateway.tunnel.streams import NodeSilent


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
    longest, pace = call.longest_bytes, call.pace
    pieces: list[bytes] = []
    size = 0
    timeout_s = call.longest_s
    ends_at = time.monotonic() + timeout_s + pace.body_s
    try:
        while (piece := await upstream.read(timeout_s)) is not None:
            size += len(piece)
            if size > longest:
                raise failures.broke("answer_too_large", most=longest)
            pieces.append(piece)
            # The engine has written its answer by now; bytes that trickle in would never end by silence.
            timeout_s = min(pace.body_idle_s, ends_at - time.monotonic())
            if timeout_s <= 0:
                raise failures.silent("total", bytes=size)
    except NodeSilent as error:
        stage = "total" if pieces and timeout_s < pace.body_idle_s else "answer"
        raise failures.silent(stage, bytes=size) from error
    return b"".join(pieces)
