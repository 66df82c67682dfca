"""How cost grows: with keys, with nodes, with streams at once; and many streams at the pace of real tokens."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import chain

from tests.bench import paced, processes
from tests.bench.ground import Ours
from tests.bench.measure import Bench, Subject
from tests.bench.wrk import Request

KEYS = (1, 1_000, 100_000)
NODES = (1, 100, 2_000)
STREAMS = (1, 32, 512, 2_000)
PACED = (200, 800)
_PACE_S = 1 / 30
_REST_S = 5.0


def rows(ours: Ours, bench: Bench, *, model: str, say: Callable[[str], None]) -> None:
    """Say one JSON line a measurement."""
    request = Request(ours.pool.key, model)
    subject = Subject(ours.url, ours.pid, request)
    measurements = (_by_streams(ours, bench, subject), _paced(ours, request), _by_keys(ours, bench, subject))
    for row in chain(*measurements, _by_nodes(ours, bench, subject)):
        say(json.dumps(row))


def _by_streams(ours: Ours, bench: Bench, subject: Subject) -> Iterator[dict[str, object]]:
    ours.connect(batch=4)
    for streams in STREAMS:
        request = replace(subject.request, is_stream=True)
        load, sample = bench.stream_cost(subject, request, streams=streams)
        yield _row("streams", streams, cpu_us_per_token=sample.us_each, errors=load.errors)


def _paced(ours: Ours, request: Request) -> Iterator[dict[str, object]]:
    for batch in (4, 1):
        ours.connect(batch=batch, tokens=120, gap_s=_PACE_S, is_prompt=True)
        for streams in PACED:
            with processes.on_core(processes.LOAD_CORE):
                seen = paced.run(ours.url, replace(request, is_stream=True), streams=streams, over_s=5.0)
            yield {"growth": "paced_streams", "batch": batch, **asdict(seen)}


def _by_nodes(ours: Ours, bench: Bench, subject: Subject) -> Iterator[dict[str, object]]:
    for nodes in NODES:
        ours.connect(nodes=nodes)
        yield _plain("nodes", nodes, bench, subject)


def _by_keys(ours: Ours, bench: Bench, subject: Subject) -> Iterator[dict[str, object]]:
    ours.connect()
    for keys in KEYS:
        _make_keys(ours, keys)
        time.sleep(_REST_S)
        yield _plain("keys", keys, bench, subject)


def _plain(what: str, size: int, bench: Bench, subject: Subject) -> dict[str, object]:
    before = processes.cpu_s(subject.pid)
    time.sleep(_REST_S)
    idle = (processes.cpu_s(subject.pid) - before) / _REST_S
    load, cost = bench.load(subject, subject.request, connections=32)
    rss_mib = processes.rss_mib(subject.pid)
    return _row(what, size, cpu_us=cost.us_each, idle_core_share=idle, rss_mib=rss_mib, errors=load.errors)


def _row(what: str, size: int, **figures: float) -> dict[str, object]:
    return {"growth": what, "size": size, **{name: float(f"{value:.4g}") for name, value in figures.items()}}


def _make_keys(ours: Ours, wanted: int) -> None:
    """Bring the customer's keys up to so many; nobody knows their texts."""
    from portal.accounts.models import ApiKey

    pattern = ApiKey.objects.order_by("id").first()
    have = ApiKey.objects.count()
    fields = {
        field.attname: getattr(pattern, field.attname)
        for field in ApiKey._meta.concrete_fields
        if field.attname not in {"id", "public_id", "digest"}
    }
    ApiKey.objects.bulk_create(
        (
            ApiKey(**fields, public_id=f"bench{number}", digest=sha256(b"%d" % number).hexdigest())
            for number in range(have, wanted)
        ),
        batch_size=5_000,
    )
