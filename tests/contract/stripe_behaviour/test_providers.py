"""Providers' accounts: open, ask for details, refuse transfers until they may receive."""

import pytest

from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import AccountOrder, TransferOrder


def opened(place, country: str = "US"):
    """Open an account."""
    provider = place.name("prov")
    order = AccountOrder(provider=provider, display_name="Node", contact_email="node@example.com", country=country)
    return place.door.create_account(key=f"account:{provider}", order=order)


def test_a_new_account_waits_for_its_owner(place):
    made = opened(place)

    seen = place.door.account(account=made.id)

    assert (seen.country, seen.is_closed, seen.is_live) == ("US", False, False)
    assert seen.transfers_status != "active"
    assert "user" in {one.awaiting for one in seen.requirements}
    assert seen.bank_fingerprint == ""


def test_every_onboarding_link_is_a_new_one(place):
    account = opened(place).id
    urls = {
        place.door.create_onboarding_link(
            key=place.name("link"),
            account=account,
            return_url="https://pool.example/return",
            refresh_url="https://pool.example/refresh",
        )
        for _ in range(2)
    }

    assert len(urls) == 2
    assert all(url.startswith("http") for url in urls)


def test_an_unfinished_account_has_no_dashboard(place):
    with pytest.raises(PaymentRejected):
        place.door.login_link(account=opened(place).id)


@pytest.mark.parametrize("is_known", [True, False])
def test_an_account_that_may_not_receive_gets_no_transfer(place, is_known):
    payout = place.name("payout")
    account = opened(place).id if is_known else "acct_1nobody0000000000"
    order = TransferOrder(100, "usd", account, f"payout_{payout}", payout, place.name("prov"))

    with pytest.raises(PaymentRejected) as refused:
        place.door.create_transfer(key=f"payout:{payout}:1", order=order)

    assert refused.value.stripe_code in {"insufficient_capabilities_for_transfer", "resource_missing"}
    assert place.door.transfers_of(group=f"payout_{payout}") == []


def test_an_active_account_is_paid_from_what_is_available(place):
    double = place.needs_double("finish the hosted form without a browser")
    account, payout = opened(place).id, place.name("payout")
    double.control("account", account=account, move="complete")
    double.control("fund", amount=1000)
    order = TransferOrder(700, "usd", account, f"payout_{payout}", payout, place.name("prov"))

    made = place.door.create_transfer(key=f"payout:{payout}:1", order=order)

    assert (made.amount_minor, made.destination, made.reference) == (700, account, payout)
    assert place.door.transfers_of(group=f"payout_{payout}") == [made]
    assert made in list(place.door.transfers_since(since=place.just_before()))
    assert place.door.login_link(account=account).startswith("http")
    assert place.door.account(account=account).bank_fingerprint
