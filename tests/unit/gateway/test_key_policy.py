"""What a key may be used for: models, networks, tools."""

from ipaddress import ip_address, ip_network

import pytest

from portal.gateway import models_api, policy
from portal.gateway.contracts import KeyPolicy
from portal.gateway.errors import ApiError
from tests.factories.gateway import key_entry, model_entry, snapshot

MODEL = model_entry()


def key(**values):
    return key_entry(policy=KeyPolicy(**values))


def refusal(call, *args, **named):
    with pytest.raises(ApiError) as caught:
        call(*args, **named)
    return caught.value.status, caught.value.kind, caught.value.code


def test_an_open_key_may_everything():
    policy.require(key_entry(), model=MODEL, has_tools=True)
    policy.require_address(key_entry(), None)


def test_a_model_that_is_not_on_the_list():
    allowed, other = key(models=frozenset({MODEL.public_id})), key(models=frozenset({"acme/other"}))

    policy.require(allowed, model=MODEL, has_tools=True)
    assert refusal(policy.require, other, model=MODEL, has_tools=False) == (
        403,
        "permission_error",
        "model_not_allowed",
    )


def test_tools_where_they_are_not_allowed():
    no_tools = key(allows_tools=False)

    policy.require(no_tools, model=MODEL, has_tools=False)
    assert refusal(policy.require, no_tools, model=MODEL, has_tools=True) == (
        403,
        "permission_error",
        "tools_not_allowed",
    )


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("192.0.2.9", True),
        ("192.0.3.9", False),
        ("2001:db8::5", True),
        ("2001:db9::5", False),
    ],
)
def test_the_networks_of_a_key(address, is_allowed):
    bound = key(networks=(ip_network("192.0.2.0/24"), ip_network("2001:db8::/32")))

    if is_allowed:
        policy.require_address(bound, ip_address(address))
    else:
        assert refusal(policy.require_address, bound, ip_address(address)) == (
            403,
            "permission_error",
            "ip_not_allowed",
        )


def test_an_address_that_nobody_tells_is_in_no_network():
    bound = key(networks=(ip_network("0.0.0.0/0"),))

    assert refusal(policy.require_address, bound, None)[2] == "ip_not_allowed"


def test_the_list_of_models_shows_those_that_the_key_may_use():
    bound = key(models=frozenset({"acme/other"}))
    offered = snapshot()

    assert models_api.listing(offered, bound, now=1.0)["data"] == []
    assert [row["id"] for row in models_api.listing(offered, key_entry(), now=1.0)["data"]] == [MODEL.public_id]
    assert refusal(models_api.single, MODEL.public_id, offered, bound, now=1.0)[2] == "model_not_allowed"
