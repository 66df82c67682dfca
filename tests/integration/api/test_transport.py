"""Agents come over HTTPS or from the same machine; a forwarded scheme or address counts from trusted proxies alone."""

import pytest
from django.test import Client

from tests.factories.nodes import NodeFactory

BODY = {"node": "node_x"}
PROXY, CLIENT = "10.1.2.3", "198.51.100.7"


def challenge(node, **request) -> int:
    headers = request.pop("headers", {})
    response = Client().post(
        "/agent/v1/session/challenge",
        {"node": node.public_id},
        content_type="application/json",
        headers=headers,
        **request,
    )
    if response.status_code == 403:
        assert response.json()["error"]["code"] == "https_required"
    return response.status_code


@pytest.fixture
def node(db):
    return NodeFactory()


def test_https_is_served(node):
    assert challenge(node, secure=True, REMOTE_ADDR=CLIENT) == 200


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "127.8.8.8"])
def test_the_same_machine_is_served_without_tls(node, peer):
    assert challenge(node, REMOTE_ADDR=peer) == 200


@pytest.mark.parametrize("peer", [CLIENT, "10.0.0.1", "192.168.1.1", "2001:db8::1", ""])
def test_plain_http_from_elsewhere_is_refused(node, peer):
    assert challenge(node, REMOTE_ADDR=peer) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-proto": "https"},
        {"x-forwarded-for": "127.0.0.1"},
        {"x-forwarded-proto": "https", "forwarded": "proto=https"},
    ],
)
def test_nobody_can_claim_tls_or_an_address_for_himself(node, headers):
    assert challenge(node, REMOTE_ADDR=CLIENT, headers=headers) == 403


def test_a_proxy_on_this_machine_that_nobody_named_does_not_make_plain_http_local(node):
    assert challenge(node, REMOTE_ADDR="127.0.0.1", headers={"x-forwarded-for": CLIENT}) == 403


def test_a_trusted_proxys_word_counts(node, settings):
    settings.TRUSTED_PROXIES = ["10.1.0.0/16"]
    forwarded = {"x-forwarded-for": CLIENT}

    assert challenge(node, REMOTE_ADDR=PROXY, headers={**forwarded, "x-forwarded-proto": "https"}) == 200
    assert challenge(node, REMOTE_ADDR=PROXY, headers={**forwarded, "x-forwarded-proto": "http"}) == 403
    assert challenge(node, REMOTE_ADDR=PROXY, headers=forwarded) == 403
    assert challenge(node, REMOTE_ADDR="10.2.0.1", headers={**forwarded, "x-forwarded-proto": "https"}) == 403


def test_a_client_cannot_slip_a_loopback_address_through_the_proxy(node, settings):
    settings.TRUSTED_PROXIES = [PROXY]

    spoofed = {"x-forwarded-for": f"127.0.0.1, {CLIENT}", "x-forwarded-proto": "http"}

    assert challenge(node, REMOTE_ADDR=PROXY, headers=spoofed) == 403
