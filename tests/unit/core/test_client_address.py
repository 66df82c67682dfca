"""Whose address counts."""

import pytest

from portal.core.client_address import client_address

PROXIES = ["10.0.0.0/8", "::1"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "trusted", "address"),
    [
        ("203.0.113.9", "", [], "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", [], "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", PROXIES, "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1", PROXIES, "198.51.100.1"),
        ("10.0.0.1", "1.2.3.4, 198.51.100.1", PROXIES, "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1, 10.0.0.2", PROXIES, "198.51.100.1"),
        ("10.0.0.1", "nonsense", PROXIES, "10.0.0.1"),
        ("10.0.0.1", "", PROXIES, "10.0.0.1"),
        ("::1", "2001:db8::5", PROXIES, "2001:db8::5"),
        ("", "198.51.100.1", PROXIES, None),
    ],
)
def test_a_forwarded_address_counts_only_from_trusted_proxies(peer, forwarded, trusted, address):
    assert client_address(peer=peer, forwarded_for=forwarded, trusted=trusted) == address
