"""Counter-signs what nodes claim of their attempts: once the attempt is booked, its receipt always reads the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from poolhouse_common import receipts as wire

from portal.billing.models import PriceVersion, UsagePosting
from portal.billing.rules import receipts as rules
from portal.billing.rules.receipt_keys import ReceiptKey, key_of
from portal.billing.rules.receipts import Proof, SignedClaim
from portal.catalog.models import CatalogModel
from portal.core.errors import DomainError
from portal.metering.models import Outcome as Outcomes
from portal.metering.models import UsageRecord
from portal.metering.rules.usage_rows import COLUMNS
from portal.nodes.models import Node
from portal.nodes.rules import signatures
from portal.trust.services import evidence
from portal.trust.services.evidence import Incident

_GIVEN_UP_AFTER = timedelta(days=2)
_RULE = "receipt_differs"
_NOT_SEALED = frozenset({"routing", "client_request_id"})


class ReceiptsOff(DomainError):
    """This pool has no key to sign receipts with."""

    code: ClassVar[str] = "receipts_off"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one claim: `signed` with its receipt, `waiting` for its record, `refused` with a code."""

    attempt: str
    state: str
    code: str = ""
    receipt: Mapping[str, Any] | None = None
    proof: str = ""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the claims of one batch are compared with, each read in one query."""

    node: Node
    records: dict[tuple[UUID, int], UsageRecord]
    postings: dict[tuple[UUID, int], UsagePosting]
    prices: dict[int, PriceVersion]
    models: dict[int, str]


def signing_key() -> ReceiptKey:
    """Return this pool's key for receipts. Raises ReceiptsOff."""
    if not settings.RECEIPT_SIGNING_KEY:
        raise ReceiptsOff("this pool gives no receipts", fix="set RECEIPT_SIGNING_KEY: `openssl rand -base64 32`")
    return key_of(settings.RECEIPT_SIGNING_KEY)


def countersign(*, node_id: int, claims: Sequence[SignedClaim], now: datetime) -> list[Outcome]:
    """Return what becomes of each claim of the node; a digest that differs is noted as evidence. Raises ReceiptsOff."""
    key = signing_key()
    facts = _facts(node_id, claims)
    outcomes = [_outcome(one, facts, key, now) for one in claims]
    differ = [one for one in outcomes if one.proof == Proof.DIFFERS]
    if differ:
        evidence.record(incidents=[_incident(one, facts, now) for one in differ])
    return outcomes


def _facts(node_id: int, claims: Iterable[SignedClaim]) -> _Facts:
    wanted = {one.key for one in claims}
    requests = {request_id for request_id, _ in wanted}
    days = {day for request_id in requests for day in rules.days_of(request_id)}
    rows = UsageRecord.objects.filter(opened_on__in=days, request_id__in=requests)
    records = {(row.request_id, row.attempt): row for row in rows if (row.request_id, row.attempt) in wanted}
    posted = UsagePosting.objects.filter(opened_on__in=days, request_id__in=requests)
    models = {row.model_id for row in records.values()}
    return _Facts(
        node=Node.objects.select_related("provider").get(pk=node_id),
        records=records,
        postings={(row.request_id, row.attempt): row for row in posted},
        prices=PriceVersion.objects.in_bulk({row.price_version_id for row in records.values()}),
        models=dict(CatalogModel.objects.filter(pk__in=models).values_list("pk", "public_id")),
    )


def _outcome(signed: SignedClaim, facts: _Facts, key: ReceiptKey, now: datetime) -> Outcome:
    message = wire.claim_message(signed.claim)
    if not signatures.is_signed(public_key=facts.node.public_key, message=message, signature=signed.signature):
        return Outcome(signed.attempt, "refused", "signature_wrong")
    row = facts.records.get(signed.key)
    if row is None:
        is_old = rules.made_at(signed.key[0]) < now - _GIVEN_UP_AFTER
        return Outcome(signed.attempt, "refused" if is_old else "waiting", "attempt_unknown")
    if row.node_id != facts.node.pk:
        return Outcome(signed.attempt, "refused", "receipt_not_yours")
    posting = facts.postings.get(signed.key)
    if row.charge_nano and posting is None:
        return Outcome(signed.attempt, "waiting", "not_booked_yet")
    proof = rules.compare(proof=row.tunnel_proof, claim=signed.claim, is_whole=row.outcome == Outcomes.COMPLETED)
    receipt = _receipt(signed, facts, key, _bill(row, posting, facts, proof))
    return Outcome(signed.attempt, "signed", receipt=receipt, proof=proof)


def _bill(row: UsageRecord, posting: UsagePosting | None, facts: _Facts, proof: Proof) -> dict[str, Any]:
    earned = posting.provider_nano if posting else 0
    price = facts.prices.get(row.price_version_id)
    return {
        "provider": facts.node.provider.public_id,
        "node": facts.node.public_id,
        "model": facts.models.get(row.model_id, ""),
        "outcome": row.outcome,
        "proof": str(proof),
        "currency": settings.CURRENCY,
        "price": rules.price_terms(price) if price else None,
        "share_bps": row.share_bps,
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": row.cached_tokens,
        "completion_tokens": row.completion_tokens,
        "token_source": row.token_source,
        "hold_nano": row.hold_nano,
        "charge_nano": row.charge_nano,
        "provider_nano": earned,
        "platform_nano": row.charge_nano - earned,
        "withheld": posting.withheld if posting else "",
        "opened_at": _text(row.opened_at),
        "closed_at": _text(row.closed_at),
    }


def _receipt(signed: SignedClaim, facts: _Facts, key: ReceiptKey, bill: dict[str, Any]) -> dict[str, Any]:
    receipt = {
        "version": wire.VERSION,
        "claim": dict(signed.claim),
        "node_key": facts.node.public_key,
        "node_signature": signed.signature,
        "bill": bill,
        "sealed": key.seal(rules.packed(_columns(facts.records[signed.key])), attempt=signed.attempt),
        "portal_key": key.public_key,
    }
    return receipt | {"portal_signature": key.sign(wire.countersign_message(receipt))}


def _columns(row: UsageRecord) -> dict[str, Any]:
    """Return the record as it was shipped, so that a pool that lost it can take it back; routing is not part of it."""
    return {name: getattr(row, name) for name in COLUMNS if name not in _NOT_SEALED}


def _incident(outcome: Outcome, facts: _Facts, now: datetime) -> Incident:
    request_id, _, number = outcome.attempt.partition("/")
    row = facts.records[UUID(request_id), int(number)]
    return Incident(
        node_id=facts.node.pk,
        rule=_RULE,
        count=1,
        first_at=now,
        last_at=now,
        detail=f"the gateway saw {_seen_bytes(row)} bytes of the answer, its digest is another",
        request_id=row.request_id,
        attempt=row.attempt,
    )


def _seen_bytes(row: UsageRecord) -> str:
    return (row.tunnel_proof or "::").split(":")[1]


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
