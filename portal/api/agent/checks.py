"""Rounds of checks over HTTPS: reports of agents, and the echo that they measure the network with."""

import json
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.agent import transport
from portal.api.agent.serializers import ErrorAnswer
from portal.api.agent.views import AgentView, read
from portal.api.fields import Text, Whole
from portal.core import clock
from portal.nodes.rules.checks import MAX_RESULTS, ResultClaim
from portal.nodes.services import check_rounds, sessions

_REFUSALS = dict.fromkeys((400, 401, 403, 404, 409, 413), ErrorAnswer)
_SESSION_TOKEN: Any = [{"sessionToken": []}]  # the library's own annotation says names and means these
_MOST_EVIDENCE = 16_384
_MOST_CHARACTERS = 900_000
_STATES = ("running", "done", "interrupted", "refused")


class Evidence(serializers.DictField):
    """Raw figures of a check; what is too much is left out, since a report must always get through."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """Return the entries that are short enough, in order."""
        if not isinstance(data, dict):
            self.fail("not_a_dict", input_type=type(data).__name__)
        kept, left = {}, _MOST_EVIDENCE
        for name, value in data.items():
            size = len(json.dumps(value)) + len(name)
            if size <= left:
                kept[str(name)[:64]] = value
                left -= size
        return kept


class ResultReport(serializers.Serializer[Any]):
    """One result of a round."""

    id = serializers.RegexField(r"^[a-z0-9_.]{1,48}$")
    version = Whole(min_value=1, max_value=1_000_000, default=1)
    status = serializers.ChoiceField(["ok", "warn", "fail", "skip"])
    subject = Text(cut=96, default="", allow_blank=True)
    code = serializers.RegexField(r"^[a-z0-9_]{0,48}$", default="", allow_blank=True)
    detail = Text(cut=400, default="", allow_blank=True)
    figure_milli = Whole(default=None, allow_null=True, max_value=10**15)
    evidence = Evidence(default=dict)


class RoundReport(serializers.Serializer[Any]):
    """`POST /agent/v1/checks/report`."""

    round = Text(max_length=40)
    state = serializers.ChoiceField(_STATES)
    code = serializers.RegexField(r"^[a-z0-9_]{0,48}$", default="", allow_blank=True)
    percent = Whole(max_value=100, default=0)
    doing = Text(cut=80, default="", allow_blank=True)
    results: "serializers.ListSerializer[Any]" = serializers.ListSerializer(
        child=ResultReport(), max_length=MAX_RESULTS, default=list
    )


class VerdictAnswer(serializers.Serializer[Any]):
    """What the portal makes of one result."""

    id = serializers.CharField()
    subject = serializers.CharField(allow_blank=True)
    verdict = serializers.ChoiceField(["pass", "warn", "fail", "review", "skip"])
    code = serializers.CharField(allow_blank=True)
    is_enforced = serializers.BooleanField()
    wanted = serializers.CharField(allow_blank=True)
    fix = serializers.CharField(allow_blank=True)


class RoundAnswer(serializers.Serializer[Any]):
    """How a report was taken."""

    state = serializers.CharField()
    verdicts = VerdictAnswer(many=True)


class EchoRequest(serializers.Serializer[Any]):
    """`POST /agent/v1/checks/echo`."""

    padding = Text(max_length=_MOST_CHARACTERS, default="", allow_blank=True, trim_whitespace=False)
    answer_characters = Whole(max_value=_MOST_CHARACTERS, default=0)


class EchoAnswer(serializers.Serializer[Any]):
    """As many characters as were asked for."""

    padding = serializers.CharField(allow_blank=True)


class ReportView(AgentView):
    """Takes reports of rounds."""

    @extend_schema(
        operation_id="agent_checks_report",
        auth=_SESSION_TOKEN,
        tags=["agent"],
        request=RoundReport,
        responses={200: RoundAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Say how far a round is, and hand in results."""
        message = read(RoundReport, request)
        results = tuple(ResultClaim(**one) for one in message.pop("results"))
        taken = check_rounds.take_report(
            token=transport.bearer(request),
            report=check_rounds.Report(results=results, **message),
            now=clock.now(),
        )
        return Response({"state": taken.state, "verdicts": list(taken.verdicts)})


class EchoView(AgentView):
    """Exchanges blocks of text."""

    @extend_schema(
        operation_id="agent_checks_echo",
        auth=_SESSION_TOKEN,
        tags=["agent"],
        request=EchoRequest,
        responses={200: EchoAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Send characters, and get as many as are asked for: a measure of the line."""
        sessions.authenticate(token=transport.bearer(request), now=clock.now())
        message = read(EchoRequest, request)
        return Response({"padding": "0" * message["answer_characters"]})
