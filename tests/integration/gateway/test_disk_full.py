"""A gateway whose disk is full admits nothing more; what it delivers is kept and settled when there is room again."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from portal.metering.models import UsageRecord
from tests.fakes import scripts
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Go on."}],
    "max_tokens": 40,
}
TEXT = " ".join(f"word{number}" for number in range(30))


@contextmanager
def _full_disk(gateway: Gateway) -> Iterator[None]:
    """Let the kernel refuse the process every write to a file, as a full disk does."""
    assert gateway.process is not None
    pid = gateway.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_admits_nothing_and_loses_nothing(pool: Pool) -> None:
    gateway = pool.gateway()
    pool.connect(pool.machine(), gateway, scripts.honest(TEXT, pause_s=0.05))
    text: list[str] = []
    ids: list[str] = []

    def read() -> None:
        streamed = BODY | {"stream": True}
        with pool.client(gateway) as client, client.stream("POST", "/v1/chat/completions", json=streamed) as answer:
            ids.append(answer.headers["x-request-id"])
            text.extend(answer.iter_lines())

    reading = threading.Thread(target=read)
    reading.start()
    until("the stream runs", lambda: len(text) > 4)

    with _full_disk(gateway), pool.client(gateway) as client:
        refused = client.post("/v1/chat/completions", json=BODY)
        reading.join(20)
        known = UsageRecord.objects.filter(request_id=ids[0]).count()
    with pool.client(gateway) as client:
        served = until("requests are served again", lambda: _served(client))

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "billing_unavailable")
    assert (
        refused.json()["error"]["message"]
        == "Usage cannot be recorded right now, so nothing is charged. Retry shortly."
    )
    assert refused.headers["retry-after"] == "2"
    assert text[-2] == "data: [DONE]"
    assert known == 0
    streamed, plain = pool.record(ids[0]), pool.record(served)
    assert (streamed.completion_tokens, streamed.charge_nano) == (plain.completion_tokens, plain.charge_nano)
    assert streamed.charge_nano > 0
    assert UsageRecord.objects.filter(charge_nano__gt=0).count() == 2


def _served(client: Any) -> str | None:
    answer = client.post("/v1/chat/completions", json=BODY)
    return answer.headers["x-request-id"] if answer.status_code == 200 else None
