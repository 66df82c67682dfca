"""Whose address a request has: what is forwarded counts only from trusted proxies."""

from ipaddress import ip_address

import pytest

from portal.gateway.addresses import AddressBook

PROXY = "10.0.0.1"


def caller(peer, *forwarded, trusted=("10.0.0.0/8",), country=None, header="cf-ipcountry"):
    headers = [(b"host", b"pool"), *[(b"x-forwarded-for", line.encode()) for line in forwarded]]
    if country is not None:
        headers.append((header.encode(), country.encode()))
    scope = {"client": (peer, 4711) if peer else None, "headers": headers}
    return AddressBook(trusted=trusted, country_header=header).caller(scope)


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.7", [], "203.0.113.7"),
        ("203.0.113.7", ["198.51.100.1"], "203.0.113.7"),
        (PROXY, ["198.51.100.1"], "198.51.100.1"),
        (PROXY, ["192.0.2.1, 198.51.100.1"], "198.51.100.1"),
        (PROXY, ["192.0.2.1, 198.51.100.1, 10.9.9.9"], "198.51.100.1"),
        (PROXY, ["192.0.2.1", "198.51.100.1"], "198.51.100.1"),
        (PROXY, [], PROXY),
        (PROXY, ["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        (PROXY, ["198.51.100.1:5555"], "198.51.100.1"),
        (PROXY, ["[2001:db8::1]:443"], "2001:db8::1"),
        (PROXY, ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:203.0.113.7", [], "203.0.113.7"),
        ("fe80::1%eth0", [], "fe80::1"),
    ],
)
def test_the_right_most_hop_that_is_no_proxy_of_ours(peer, forwarded, expected):
    assert caller(peer, *forwarded).address == ip_address(expected)


@pytest.mark.parametrize("chain", ["unknown", "198.51.100.1, garbage", "198.51.100.1, <script>", "1.2.3.4.5"])
def test_what_cannot_be_read_is_nobodys_address(chain):
    assert caller(PROXY, chain).address is None


def test_without_a_peer_there_is_no_address():
    assert caller("", "198.51.100.1").address is None


@pytest.mark.parametrize(
    ("peer", "network"), [("203.0.113.77", "203.0.113.0/24"), ("2001:db8:aa:bb::1", "2001:db8:aa::/48")]
)
def test_the_network_is_what_is_remembered_of_an_address(peer, network):
    assert caller(peer).network == network


@pytest.mark.parametrize(
    ("peer", "told", "expected"),
    [(PROXY, "de", "DE"), ("203.0.113.7", "de", ""), (PROXY, "XX", ""), (PROXY, "T1", ""), (PROXY, "Germany", "")],
)
def test_the_country_counts_only_from_a_trusted_proxy(peer, told, expected):
    assert caller(peer, "198.51.100.1", country=told).country == expected


def test_another_header_is_not_the_countrys():
    book = AddressBook(trusted=[PROXY], country_header="cf-ipcountry")
    scope = {"client": (PROXY, 1), "headers": [(b"x-country", b"DE"), (b"x-forwarded-for", b"198.51.100.1")]}

    assert book.caller(scope).country == ""


def test_a_caller_is_remembered_by_all_that_names_it():
    book = AddressBook(trusted=[PROXY], country_header="cf-ipcountry")

    def asked(chain, country):
        headers = [(b"x-forwarded-for", chain), (b"cf-ipcountry", country)]
        return book.caller({"client": (PROXY, 1), "headers": headers})

    first = asked(b"198.51.100.1", b"DE")

    assert asked(b"198.51.100.1", b"DE") is first
    assert asked(b"198.51.100.1", b"FR").country == "FR"
    assert asked(b"198.51.101.1", b"DE").network == "198.51.101.0/24"
