"""The agent protocol over HTTPS: enrol, session, heartbeat. The tunnel is the gateway's."""

from functools import cache
from typing import Any, TypeVar

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from portal.api.agent import reading, serializers, transport
from portal.api.parsing import BoundedJSONParser
from portal.core import clock, ids
from portal.nodes.services import enrolment, heartbeat, sessions

S = TypeVar("S", bound=Serializer[Any])

_REFUSALS = dict.fromkeys((400, 401, 403, 404, 409, 413), serializers.ErrorAnswer)
_TAGS = ["agent"]
# Security requirement objects; the library's own annotation says names and means these.
_ENROLMENT_TOKEN: Any = [{"enrolmentToken": []}]
_SESSION_TOKEN: Any = [{"sessionToken": []}]
_SESSION_TOKEN_OR_NONE: Any = [{"sessionToken": []}, {}]


class AgentView(APIView):
    """A route for agents: JSON both ways, no cookies, errors in one shape."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    parser_classes = (BoundedJSONParser,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse plain HTTP before anything is read."""
        super().initial(request, *args, **kwargs)
        transport.require_https(request)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Name every answer, and keep it out of caches."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response["x-request-id"] = str(ids.uuid7())
        response["cache-control"] = "no-store"
        return response


class EnrolView(AgentView):
    """Joins a machine."""

    @extend_schema(
        operation_id="agent_enrol",
        auth=_ENROLMENT_TOKEN,
        tags=_TAGS,
        request=serializers.EnrolRequest,
        responses={200: serializers.EnrolAnswer, 201: serializers.EnrolAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Exchange a single-use token for an identity bound to the agent's key."""
        now = clock.now()
        message = read(serializers.EnrolRequest, request)
        joined = enrolment.enrol_node(
            token=transport.bearer(request),
            enrolment=enrolment.Enrolment(**message),
            address=transport.address_of(request),
            now=now,
        )
        answer = {
            "node": joined.node.public_id,
            "provider": joined.node.provider.public_id,
            "heartbeat_s": sessions.HEARTBEAT_S,
            "server_time": reading.time_text(now),
        }
        return Response(answer, status=201 if joined.is_new else 200)


class ChallengeView(AgentView):
    """Gives out a nonce."""

    @extend_schema(
        operation_id="agent_session_challenge",
        tags=_TAGS,
        request=serializers.ChallengeRequest,
        responses={200: serializers.ChallengeAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Ask for a nonce to sign."""
        now = clock.now()
        message = read(serializers.ChallengeRequest, request)
        found = sessions.challenge(node=message["node"], now=now)
        return Response(
            {
                "nonce": found.nonce,
                "expires_in_s": found.expires_in_s,
                "server_time": reading.time_text(now),
            }
        )


class SessionView(AgentView):
    """Opens and renews sessions."""

    @extend_schema(
        operation_id="agent_session",
        auth=_SESSION_TOKEN_OR_NONE,
        tags=_TAGS,
        request=serializers.SessionOpening,
        responses={200: serializers.SessionAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Prove the node's key and get a session token."""
        now = clock.now()
        opened = sessions.open_session(
            request=sessions.SessionRequest(**read(serializers.SessionOpening, request)),
            bearer=transport.bearer(request),
            address=transport.address_of(request),
            now=now,
        )
        return Response(
            {
                "token": opened.token,
                "expires_in_s": opened.expires_in_s,
                "generation": opened.generation,
                "tunnel_url": opened.tunnel_url,
                "heartbeat_s": sessions.HEARTBEAT_S,
                "server_time": reading.time_text(now),
            }
        )


class HeartbeatView(AgentView):
    """Takes signs of life."""

    @extend_schema(
        operation_id="agent_heartbeat",
        auth=_SESSION_TOKEN,
        tags=_TAGS,
        request=serializers.HeartbeatRequest,
        responses={200: serializers.HeartbeatAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Report hardware and deployments; learn where the node stands and what it should run."""
        now = clock.now()
        found = heartbeat.record_heartbeat(
            token=transport.bearer(request),
            beat=reading.beat_from(read(serializers.HeartbeatRequest, request)),
            address=transport.address_of(request),
            now=now,
        )
        return Response(reading.heartbeat_answer(found, heartbeat_s=sessions.HEARTBEAT_S, now=now))


class UnknownView(AgentView):
    """Any other path below /agent/v1."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Answer 404 in the shape agents read."""
        super().initial(request, *args, **kwargs)
        raise Http404


def read(kind: type[S], request: Request) -> dict[str, Any]:
    """Return the validated message. Raises ValidationError, InvalidJson, RequestTooLarge."""
    return dict(_validator(kind).run_validation(request.data))


@cache
def _validator(kind: type[S]) -> S:
    """One instance for all messages of a kind: making its fields costs more than asking them, and they keep nothing."""
    return kind()
