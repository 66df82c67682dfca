"""Requests are checked against the parameter types of the installed SDK."""

import pytest
from stripe import params
from stripe.params import checkout
from stripe.params.v2 import core

from portal.sandbox.stripe_double.checks import check
from portal.sandbox.stripe_double.faults import Refusal
from portal.sandbox.stripe_double.wire import read_form, read_json

TRANSFER = "amount=100&currency=usd&destination=acct_1&metadata[payout]=p1"
SESSION = (
    "mode=payment&line_items[0][quantity]=1&line_items[0][price_data][currency]=usd"
    "&line_items[0][price_data][unit_amount]=500&line_items[0][price_data][product_data][name]=Credit"
    "&invoice_creation[enabled]=true"
)
LINK = {
    "account": "acct_1",
    "use_case": {
        "type": "account_onboarding",
        "account_onboarding": {"configurations": ["recipient"], "refresh_url": "https://x.example"},
    },
}


def test_a_form_gets_typed_leaves():
    assert check(params.TransferCreateParams, read_form(TRANSFER), is_text=True) == {
        "amount": 100,
        "currency": "usd",
        "destination": "acct_1",
        "metadata": {"payout": "p1"},
    }


def test_brackets_become_lists_and_booleans():
    body = check(checkout.SessionCreateParams, read_form(SESSION), is_text=True)

    assert body["line_items"][0]["price_data"]["unit_amount"] == 500
    assert body["invoice_creation"] == {"enabled": True}


@pytest.mark.parametrize(
    ("form", "code", "param"),
    [
        (TRANSFER + "&destnation=x", "parameter_unknown", "destnation"),
        ("currency=usd", "parameter_missing", "destination"),
        (TRANSFER.replace("100", "1.5"), "parameter_invalid", "amount"),
        (TRANSFER.replace("100", "ten"), "parameter_invalid", "amount"),
        (TRANSFER + "&source_type=gold", "parameter_invalid", "source_type"),
        (TRANSFER + "&expand=x", "parameter_invalid", "expand"),
        (TRANSFER + "&idempotency_key=x", "parameter_unknown", "idempotency_key"),
    ],
)
def test_a_form_that_breaks_the_types_is_refused(form, code, param):
    with pytest.raises(Refusal) as refused:
        check(params.TransferCreateParams, read_form(form), is_text=True)

    assert (refused.value.status, refused.value.code, refused.value.param) == (400, code, param)


def test_a_typo_deep_inside_is_refused():
    with pytest.raises(Refusal) as refused:
        check(checkout.SessionCreateParams, read_form(SESSION.replace("unit_amount", "amount")), is_text=True)

    assert refused.value.param == "line_items[0][price_data][amount]"


def test_json_must_have_its_types_as_it_is():
    assert check(core.AccountLinkCreateParams, LINK, is_text=False) == LINK
    requested = {"configuration": {"recipient": {"capabilities": {"stripe_balance": {"stripe_transfers": {}}}}}}
    stripe_transfers = requested["configuration"]["recipient"]["capabilities"]["stripe_balance"]["stripe_transfers"]
    stripe_transfers["requested"] = "true"

    with pytest.raises(Refusal):
        check(core.AccountCreateParams, requested, is_text=False)


@pytest.mark.parametrize("raw", [b"{", b"[]", b'"x"', b"1"])
def test_json_that_is_no_object_is_refused(raw):
    with pytest.raises(Refusal):
        read_json(raw)


@pytest.mark.parametrize("form", ["a[b=1", "a=1&a[b]=2"])
def test_a_form_that_contradicts_itself_is_refused(form):
    with pytest.raises(Refusal):
        read_form(form)
