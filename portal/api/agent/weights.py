"""The list of a model's files, for an agent that fetches them."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.agent import transport
from portal.api.agent.serializers import ErrorAnswer
from portal.api.agent.views import AgentView, read
from portal.catalog.selectors.weight_lists import weight_list
from portal.core import clock
from portal.nodes.services import sessions

_REFUSALS = dict.fromkeys((400, 401, 403, 404, 409, 413), ErrorAnswer)
_SESSION_TOKEN: Any = [{"sessionToken": []}]  # the library's own annotation says names and means these


class WeightsRequest(serializers.Serializer[Any]):
    """`POST /agent/v1/weights`."""

    artefact_digest = serializers.RegexField(r"^[0-9a-f]{64}$")


class WeightFile(serializers.Serializer[Any]):
    """One file below the model's folder."""

    path = serializers.CharField()
    sha256 = serializers.CharField()


class WeightsAnswer(serializers.Serializer[Any]):
    """Where the files come from, and what each must be. The list's digest is the one that was asked for."""

    source = serializers.CharField()  # type: ignore[assignment]  # a field of the message
    revision = serializers.CharField()
    files = WeightFile(many=True)


class WeightsView(AgentView):
    """Tells which files a model is made of."""

    @extend_schema(
        operation_id="agent_weights",
        auth=_SESSION_TOKEN,
        tags=["agent"],
        request=WeightsRequest,
        responses={200: WeightsAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Return the files of an artefact digest."""
        sessions.authenticate(token=transport.bearer(request), now=clock.now())
        found = weight_list(digest=read(WeightsRequest, request)["artefact_digest"])
        files = [{"path": one.path, "sha256": one.sha256} for one in found.files]
        return Response({"source": found.source, "revision": found.revision, "files": files})
