"""Connected accounts: which may receive, which bank they named, and what becomes of them."""

import httpx
import pytest

from portal.integrations.stripe_errors import InsufficientFunds, PaymentRejected
from portal.integrations.stripe_types import AccountOrder, TransferOrder

DAY_S = 86_400


def transfer(till, account: str, amount: int, *, currency: str = "usd"):
    """Move money to an account."""
    order = TransferOrder(amount, currency, account, f"payout_{till.key()}", "payout_1", "prov_1")
    return till.door.create_transfer(key=till.key(), order=order)


@pytest.mark.parametrize(("country", "status"), [("BR", "unsupported"), ("DE", "restricted")])
def test_a_country_is_served_or_not(till, country, status):
    made = till.door.create_account(key="a", order=AccountOrder("prov_1", "Node", "n@example.com", country))

    assert (made.transfers_status, made.country) == (status, country)
    if status == "unsupported":
        assert (made.transfers_code, made.transfers_resolution) == ("unsupported_country", "no_resolution")


@pytest.mark.parametrize(
    ("move", "transfers", "bank_payouts"),
    [
        ("complete", "active", "active"),
        ("review", "pending", "pending"),
        ("restrict", "restricted", "restricted"),
        ("refuse", "unsupported", "unsupported"),
        ("remind", "active", "active"),
        ("lapse", "restricted", "restricted"),
        ("block_bank", "active", "restricted"),
    ],
)
def test_a_move_shows(till, move, transfers, bank_payouts):
    seen = till.door.account(account=till.account(move))

    assert (seen.transfers_status, seen.bank_payouts_status) == (transfers, bank_payouts)


def test_a_deadline_is_told_and_stops_the_account_when_it_passes(till):
    account = till.account("remind", due_in_s=str(3 * DAY_S))
    seen = till.door.account(account=account)
    assert (seen.transfers_status, seen.due_at is not None) == ("active", True)

    till.double.control("clock/advance", seconds=3 * DAY_S + 2)

    assert till.door.account(account=account).transfers_code == "requirements_past_due"


def test_one_bank_account_has_one_fingerprint_everywhere(till):
    same = [till.account(bank="000999000"), till.account(bank="000999000"), till.account()]

    first, second, other = [till.door.account(account=one).bank_fingerprint for one in same]

    assert first == second != other
    assert other


def test_a_bank_account_changes_in_the_providers_own_dashboard(till):
    account = till.account()
    before = till.door.account(account=account).bank_fingerprint
    url = till.door.login_link(account=account)
    assert "Simulated, no money moves." in httpx.get(url, trust_env=False).text
    till.told()

    assert till.press(url, "bank", bank="000111222").status_code == 303

    assert till.door.account(account=account).bank_fingerprint != before
    assert "account.external_account.updated" in till.told()


def test_an_account_in_another_currency_gets_no_transfer(till):
    till.double.control("fund", amount=1000)
    account = till.account()
    till.double.control("account/bank", account=account, bank="000111222", currency="eur")
    assert till.door.account(account=account).currency == "eur"

    with pytest.raises(PaymentRejected) as refused:
        transfer(till, account, 100)

    assert (refused.value.stripe_code, till.balance()) == ("transfers_not_allowed", 1000)


def test_a_debt_eats_what_comes_in(till):
    till.double.control("fund", amount=1000)
    account = till.account()
    till.double.control("account/debt", account=account, amount=700)
    assert till.balance(account) == -700

    transfer(till, account, 500)

    assert (till.balance(account), till.balance()) == (-200, 500)
    assert till.double.control("bank/run") == {"payouts": []}


def test_a_reversal_is_limited_by_what_the_account_has(till):
    till.double.control("fund", amount=1000)
    made = transfer(till, till.account(), 1000)

    once = till.door.reverse_transfer(key=till.key(), transfer=made.id, amount_minor=400)
    assert (once.reversed_minor, till.balance()) == (400, 400)

    till.double.control("bank/run")
    with pytest.raises(InsufficientFunds):
        till.door.reverse_transfer(key=till.key(), transfer=made.id, amount_minor=600)
    assert till.balance() == 400


def test_a_blocked_bank_is_not_paid(till):
    till.double.control("fund", amount=1000)
    account = till.account("block_bank")
    transfer(till, account, 300)

    assert till.double.control("bank/run") == {"payouts": []}
    assert till.balance(account) == 300


@pytest.mark.parametrize("currency", ["isk", "huf", "twd", "ugx"])
def test_some_banks_take_whole_units_only(till, currency):
    till.double.control("fund", amount=10_000, currency=currency)
    account = till.account("complete")
    till.double.control("account/bank", account=account, bank="1", currency=currency)

    with pytest.raises(PaymentRejected):
        transfer(till, account, 150, currency=currency)

    assert transfer(till, account, 100, currency=currency).amount_minor == 100
