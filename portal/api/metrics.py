"""GET /metrics of the portal: the pool as the database knows it; GET /metrics/nodes: what the nodes told.

Both are the same from every replica. Requests and latencies are the gateway's. Amounts are in nano units of the
pool's currency.
"""

import hmac
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.api.node_metrics import Nodes
from portal.billing.selectors import pool_totals
from portal.core import audience, clock, trusted_proxy
from portal.metering.selectors import backlog, hours
from portal.nodes.selectors import nodes, serving
from portal.payouts.selectors import payouts
from portal.webhooks.selectors import inbox

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")


@audience.declare(audience.machine("metrics_token"))
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer Prometheus' text to whoever has METRICS_TOKEN, or asks from this machine where none is set."""
    return _answer(request, _Pool(clock.now()))


@audience.declare(audience.machine("metrics_token"))
@require_safe
def node_metrics(request: HttpRequest) -> HttpResponse:
    """Answer what the nodes told, to the same: apart, since it grows with the fleet."""
    return _answer(request, Nodes())


def _answer(request: HttpRequest, collector: Collector) -> HttpResponse:
    if not _may_read(request):
        message = "Send METRICS_TOKEN as `Authorization: Bearer …`, or, where none is set, ask from this machine."
        error = {"message": message, "type": "authentication_error", "param": None, "code": "invalid_metrics_token"}
        return JsonResponse({"error": error}, status=401)
    registry = CollectorRegistry()
    registry.register(collector)
    return HttpResponse(generate_latest(registry), content_type=_TYPE)


def _may_read(request: HttpRequest) -> bool:
    if settings.METRICS_TOKEN:
        given = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, f"Bearer {settings.METRICS_TOKEN}".encode())
    # Behind a proxy on this machine everybody would come from here.
    is_here = trusted_proxy.is_trusted(request.META.get("REMOTE_ADDR", ""), _LOOPBACK)
    return is_here and "x-forwarded-for" not in request.headers


class _Pool(Collector):
    """Reads everything once, when it is asked."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield _gauge("nodes", "Nodes by state", "state", nodes.states_count().items())
        yield _gauge("ready_nodes", "Nodes on which a model is ready", "model", serving.ready_by_model().items())
        yield from self._usage()
        yield _gauge("stripe_events", "Events of Stripe by what became of them", "state", inbox.states_count().items())
        totals = payouts.totals()
        yield _gauge("payouts", "Payouts by state", "state", [(state, row[0]) for state, row in totals.items()])
        owed = pool_totals.liabilities()
        kinds = [(field.name.removesuffix("_nano"), getattr(owed, field.name)) for field in fields(owed)]
        yield _gauge("liabilities_nano", "What the pool owes", "kind", kinds)

    def _usage(self) -> Iterator[Metric]:
        behind = backlog.by_reader(now=self._now)
        waiting = [(row.reader, row.records) for row in behind]
        yield _gauge("usage_queued", "Records a reader has yet to take", "reader", waiting)
        oldest = [(row.reader, row.oldest_s) for row in behind]
        yield _gauge("usage_queued_oldest_seconds", "Age of the oldest of them", "reader", oldest)
        yield _gauge("usage_refused", "Records that contradict a stored one", "", [("", backlog.refused_count())])
        yield _gauge("spools", "Gateway spools by state", "state", backlog.spools_by_state().items())
        sums = hours.sums_by_model()
        tokens = CounterMetricFamily("poolhouse_billed_tokens", "Billed tokens", labels=("model", "type"))
        charged = CounterMetricFamily("poolhouse_charged_nano", "Charged to customers", labels=("model",))
        earned = CounterMetricFamily("poolhouse_earned_nano", "The providers' shares of it", labels=("model",))
        for row in sums:
            tokens.add_metric((row.model, "input"), row.prompt_tokens)
            tokens.add_metric((row.model, "cached"), row.cached_tokens)
            tokens.add_metric((row.model, "output"), row.completion_tokens)
            charged.add_metric((row.model,), row.charge_nano)
            earned.add_metric((row.model,), row.provider_nano)
        yield from (tokens, charged, earned)


def _gauge(name: str, text: str, label: str, rows: Iterable[tuple[str, float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"poolhouse_{name}", text, labels=(label,) if label else ())
    for value, number in rows:
        family.add_metric((str(value),) if label else (), number)
    return family
