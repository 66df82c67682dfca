"""The portal signs what it booked of an attempt, for the attempt's own node alone, and always in the same words."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.test import Client
from django.urls import reverse
from poolhouse_agent.receipts import signatures as agents_view
from poolhouse_agent.receipts import verify
from poolhouse_common.receipts import countersign_message

from portal.billing.rules.receipt_keys import key_of
from portal.billing.services import posting, receipts
from portal.nodes.models import Node
from portal.trust.models import NodeEvidence
from portal.trust.rules import evidence
from tests.factories.billing import DELIVERED, EarningProviderFactory, Market, ServingNodeFactory
from tests.factories.nodes import NodeSessionFactory
from tests.factories.receipts import ANSWER, PUBLIC_KEY, SEED, claim_of, digest, serve

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def receipt_key(settings) -> None:
    settings.RECEIPT_SIGNING_KEY = SEED


@pytest.fixture
def market() -> Market:
    return Market(node=ServingNodeFactory(public_key=PUBLIC_KEY))


def signed(node: Node, *claims):
    return receipts.countersign(node_id=node.pk, claims=claims, now=DELIVERED)


def test_a_booked_attempt_gets_a_receipt_that_both_have_signed(market):
    record = serve(market)
    posting.post_usage(now=DELIVERED)

    (outcome,) = signed(market.node, claim_of(record))

    assert (outcome.state, outcome.proof) == ("signed", "equal")
    receipt = json.loads(json.dumps(outcome.receipt))
    assert agents_view.is_nodes(receipt)
    assert agents_view.is_portals(receipt, portal_key=key_of(SEED).public_key)
    bill = receipt["bill"]
    assert (bill["charge_nano"], bill["provider_nano"], bill["share_bps"]) == (600_000, 480_000, 8000)
    assert (bill["price"]["id"], bill["node"], bill["model"]) == (
        market.price.pk,
        market.node.public_id,
        market.model.public_id,
    )
    Ed25519PublicKey.from_public_bytes(base64.b64decode(receipt["portal_key"])).verify(
        base64.b64decode(receipt["portal_signature"]), countersign_message(receipt)
    )


def test_the_same_claim_always_gets_the_same_receipt(market):
    record = serve(market)
    posting.post_usage(now=DELIVERED)

    first, again = signed(market.node, claim_of(record))[0], signed(market.node, claim_of(record))[0]

    assert first.receipt == again.receipt


def test_a_receipt_names_neither_customer_nor_key(market):
    record = serve(market, client_request_id="customers-own-name")
    posting.post_usage(now=DELIVERED)

    text = json.dumps(signed(market.node, claim_of(record))[0].receipt)

    for secret in (market.customer.public_id, market.key.public_id, market.customer.name, "customers-own-name"):
        assert secret not in text


def test_what_is_not_recorded_or_not_booked_yet_waits(market):
    record = serve(market)
    unknown = claim_of(record, attempt=f"{record.request_id}/2")

    waiting = signed(market.node, claim_of(record), unknown)

    assert [(one.state, one.code) for one in waiting] == [("waiting", "not_booked_yet"), ("waiting", "attempt_unknown")]


def test_an_attempt_that_no_gateway_brings_in_is_given_up_after_two_days(market):
    record = serve(market)
    unknown = claim_of(record, attempt=f"{record.request_id}/2")

    (outcome,) = receipts.countersign(node_id=market.node.pk, claims=[unknown], now=DELIVERED.replace(day=5))

    assert (outcome.state, outcome.code) == ("refused", "attempt_unknown")


def test_a_free_attempt_gets_a_receipt_of_nothing(market):
    record = serve(market, charge_nano=0, outcome="node_fault", lease_charges=[0])

    (outcome,) = signed(market.node, claim_of(record, ending="fail"))

    assert outcome.receipt["bill"]["charge_nano"] == outcome.receipt["bill"]["provider_nano"] == 0


def test_only_the_attempts_own_node_may_claim_it(market):
    record = serve(market)
    posting.post_usage(now=DELIVERED)
    thief = ServingNodeFactory(provider=EarningProviderFactory())
    Node.objects.filter(pk=market.node.pk).update(public_key="moved")
    Node.objects.filter(pk=thief.pk).update(public_key=PUBLIC_KEY)

    (outcome,) = signed(thief, claim_of(record))

    assert (outcome.state, outcome.code, outcome.receipt) == ("refused", "receipt_not_yours", None)


def test_a_claim_that_was_changed_after_it_was_signed_is_refused(market):
    record = serve(market)
    posting.post_usage(now=DELIVERED)
    honest = claim_of(record)
    changed = type(honest)({**honest.claim, "answer_bytes": 10**6}, honest.signature)

    (outcome,) = signed(market.node, changed)

    assert (outcome.state, outcome.code, outcome.receipt) == ("refused", "signature_wrong", None)


def test_other_bytes_than_the_gateways_are_evidence_that_weighs_nothing(market):
    record = serve(market)
    posting.post_usage(now=DELIVERED)

    (outcome,) = signed(market.node, claim_of(record, taken=digest(b"data: other\n\n", *ANSWER[1:])))

    assert outcome.receipt["bill"]["proof"] == "differs"
    noted = NodeEvidence.objects.get()
    assert (noted.node, noted.rule, noted.request_id, noted.count) == (
        market.node,
        "receipt_differs",
        record.request_id,
        1,
    )
    assert "receipt_differs" not in evidence.HOSTILE


def test_a_customer_who_left_saw_less_and_that_is_no_difference(market):
    record = serve(market, outcome="customer_abort", proof=digest(ANSWER[0]).proof())
    posting.post_usage(now=DELIVERED)

    (outcome,) = signed(market.node, claim_of(record))

    assert outcome.receipt["bill"]["proof"] == "partial"
    assert not NodeEvidence.objects.exists()


def test_an_attempt_without_the_gateways_digest_is_signed_as_unproven(market):
    record = serve(market, proof=None)
    posting.post_usage(now=DELIVERED)

    assert signed(market.node, claim_of(record))[0].receipt["bill"]["proof"] == "unknown"


def test_a_pool_without_a_key_gives_no_receipts(market, settings):
    settings.RECEIPT_SIGNING_KEY = ""

    with pytest.raises(receipts.ReceiptsOff, match="no receipts"):
        signed(market.node, claim_of(serve(market)))


def test_a_batch_costs_as_many_queries_as_one(market, django_assert_max_num_queries):
    records = [serve(market) for _ in range(20)]
    posting.post_usage(now=DELIVERED)

    with django_assert_max_num_queries(6):
        outcomes = signed(market.node, *(claim_of(record) for record in records))

    assert {one.state for one in outcomes} == {"signed"}


def test_over_https_a_node_hands_in_claims_and_takes_receipts(market, client: Client):
    token = "ph-session-" + "x" * 40
    NodeSessionFactory(node=market.node, token_hash=hashlib.sha256(token.encode()).hexdigest())
    record = serve(market)
    posting.post_usage(now=DELIVERED)
    one = claim_of(record)

    answer = client.post(
        reverse("agent-receipts"),
        {"claims": [{"claim": dict(one.claim), "signature": one.signature}]},
        content_type="application/json",
        headers={"authorization": f"Bearer {token}"},
    )

    assert answer.status_code == 200, answer.content
    body = answer.json()
    checked = verify.check([body["results"][0]["receipt"]], portal_key=body["signing_key"], prices=None)
    assert (checked.problems, checked.earned) == ([], {one.attempt: 480_000})
