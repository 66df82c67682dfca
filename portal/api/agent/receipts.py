"""Receipts over HTTPS: a node hands in signed claims of its attempts and takes back what the pool counter-signs."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.agent import transport
from portal.api.agent.serializers import ErrorAnswer
from portal.api.agent.views import AgentView, read
from portal.api.fields import Text, Whole
from portal.billing.rules.receipts import MAX_CLAIMS, SignedClaim
from portal.billing.services import receipts
from portal.core import clock
from portal.nodes.services import sessions

_REFUSALS = dict.fromkeys((400, 401, 403, 404, 409, 413), ErrorAnswer)
_SESSION_TOKEN: Any = [{"sessionToken": []}]  # the library's own annotation says names and means these
_ATTEMPT = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/[1-9][0-9]?\Z"
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,16}Z\Z"


class Claim(serializers.Serializer[Any]):
    """What a node claims of one attempt. Exactly these fields are signed and stay in the receipt."""

    attempt = serializers.RegexField(_ATTEMPT)
    nonce = serializers.RegexField(r"^[0-9a-f]{16,64}\Z")
    answer_bytes = Whole()
    digest = serializers.RegexField(r"^[0-9a-f]{64}\Z")
    ending = serializers.ChoiceField(["end", "fail", "canceled"])
    began_at = serializers.RegexField(_MOMENT)
    ended_at = serializers.RegexField(_MOMENT)


class SignedClaimReport(serializers.Serializer[Any]):
    """A claim and the node's signature over it."""

    claim = Claim()
    signature = Text(max_length=128)


class ReceiptsRequest(serializers.Serializer[Any]):
    """`POST /agent/v1/receipts`."""

    claims: "serializers.ListSerializer[Any]" = serializers.ListSerializer(
        child=SignedClaimReport(), max_length=MAX_CLAIMS
    )


class ClaimResult(serializers.Serializer[Any]):
    """What became of one claim."""

    attempt = serializers.CharField()
    state = serializers.ChoiceField(["signed", "waiting", "refused"])
    code = serializers.CharField(allow_blank=True)
    receipt = serializers.DictField(required=False)


class ReceiptsAnswer(serializers.Serializer[Any]):
    """The pool's public key for receipts, and a result for each claim."""

    signing_key = serializers.CharField()
    results = ClaimResult(many=True)


class ReceiptsView(AgentView):
    """Counter-signs claims."""

    @extend_schema(
        operation_id="agent_receipts",
        auth=_SESSION_TOKEN,
        tags=["agent"],
        request=ReceiptsRequest,
        responses={200: ReceiptsAnswer, **_REFUSALS},
    )
    def post(self, request: Request) -> Response:
        """Hand in claims of attempts, at most two hundred, and get a receipt for each that is booked."""
        now = clock.now()
        node = sessions.authenticate(token=transport.bearer(request), now=now)
        claims = [SignedClaim(one["claim"], one["signature"]) for one in read(ReceiptsRequest, request)["claims"]]
        outcomes = receipts.countersign(node_id=node.node_id, claims=claims, now=now)
        return Response(
            {"signing_key": receipts.signing_key().public_key, "results": [_result(outcome) for outcome in outcomes]}
        )


def _result(outcome: receipts.Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {"attempt": outcome.attempt, "state": outcome.state, "code": outcome.code}
    return told | ({"receipt": outcome.receipt} if outcome.receipt else {})
