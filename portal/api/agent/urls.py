"""The agent protocol's routes; docs/agent-protocol.md describes them."""

from django.urls import URLPattern, path, re_path

from portal.api.agent import checks, receipts, releases, views, weights
from portal.core import audience

_session = audience.declare(audience.machine("node_session"))
_token = audience.declare(audience.machine("enrolment_token"))
_signature = audience.declare(audience.machine("node_signature"))

urlpatterns: list[URLPattern] = [
    path("enrol", _token(views.EnrolView.as_view()), name="agent-enrol"),
    path("session/challenge", _signature(views.ChallengeView.as_view()), name="agent-session-challenge"),
    path("session", _signature(views.SessionView.as_view()), name="agent-session"),
    path("heartbeat", _session(views.HeartbeatView.as_view()), name="agent-heartbeat"),
    path("checks/report", _session(checks.ReportView.as_view()), name="agent-checks-report"),
    path("checks/echo", _session(checks.EchoView.as_view()), name="agent-checks-echo"),
    path("receipts", _session(receipts.ReceiptsView.as_view()), name="agent-receipts"),
    path("weights", _session(weights.WeightsView.as_view()), name="agent-weights"),
    path("releases/<str:version>/<str:name>", releases.release_file, name="agent-release-file"),
    re_path(r"^.*$", audience.declare(audience.PUBLIC)(views.UnknownView.as_view()), name="agent-unknown"),
]
