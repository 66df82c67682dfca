"""What the door does about providers: their accounts, transfers to them, and what their banks got."""

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from django.conf import settings

from portal.integrations import stripe_accounts_v1 as accounts_v1
from portal.integrations import stripe_reading as reading
from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_outcome import StripeCalls, outcome
from portal.integrations.stripe_types import Account, AccountOrder, BankPayout, Transfer, TransferOrder

log = logging.getLogger(__name__)
_PAGE = 100
_AccountField = Literal["configuration.recipient", "identity", "requirements", "defaults"]
_ACCOUNT_FIELDS: tuple[_AccountField, ...] = ("configuration.recipient", "identity", "requirements", "defaults")


class PayingCalls(StripeCalls):
    """The providers' part of `Payments`."""

    def create_account(self, *, key: str, order: AccountOrder) -> Account:
        """Create an account that only receives transfers; the platform carries fees and losses."""
        if settings.STRIPE_ACCOUNTS_API == "v1":
            return accounts_v1.create(self._v1, key=key, order=order)
        with accounts_v1.accounts_api("v2"):
            made = self._v2.core.accounts.create(
                {
                    "contact_email": order.contact_email,
                    "display_name": order.display_name,
                    "dashboard": "express",
                    "identity": {"country": order.country},
                    "configuration": {
                        "recipient": {"capabilities": {"stripe_balance": {"stripe_transfers": {"requested": True}}}}
                    },
                    "defaults": {
                        "responsibilities": {"fees_collector": "application", "losses_collector": "application"}
                    },
                    "metadata": {"provider_id": order.provider},
                    "include": list(_ACCOUNT_FIELDS),
                },
                {"idempotency_key": key},
            )
        return reading.account(made.to_dict())

    def account(self, *, account: str) -> Account:
        """Return the account and the fingerprint of its bank."""
        if settings.STRIPE_ACCOUNTS_API == "v1":
            bank = self._bank_if_told(account)
            return accounts_v1.retrieve(self._v1, account=account, bank_fingerprint=bank)
        with accounts_v1.accounts_api("v2"):
            found = self._v2.core.accounts.retrieve(account, {"include": list(_ACCOUNT_FIELDS)})
        return reading.account(found.to_dict(), bank_fingerprint=self._bank_if_told(account))

    def bank_fingerprint(self, *, account: str) -> str:
        """Return what names the account's bank account, empty where it has none."""
        with outcome():
            banks = self._v1.accounts.external_accounts.list(account, {"object": "bank_account", "limit": _PAGE})
            return reading.bank_fingerprint([one.to_dict() for one in banks.auto_paging_iter()])

    def _bank_if_told(self, account: str) -> str:
        """Return it, empty where Stripe will not tell: a closed account has none to show."""
        try:
            return self.bank_fingerprint(account=account)
        except PaymentRejected as error:
            log.info("stripe.bank_not_shown", extra={"account": account, "reason": error.stripe_code})
            return ""

    def create_onboarding_link(self, *, key: str, account: str, return_url: str, refresh_url: str) -> str:
        """Return the URL of a single-use hosted onboarding page."""
        if settings.STRIPE_ACCOUNTS_API == "v1":
            return accounts_v1.onboarding_link(
                self._v1, key=key, account=account, return_url=return_url, refresh_url=refresh_url
            )
        with accounts_v1.accounts_api("v2"):
            link = self._v2.core.account_links.create(
                {
                    "account": account,
                    "use_case": {
                        "type": "account_onboarding",
                        "account_onboarding": {
                            "configurations": ["recipient"],
                            "refresh_url": refresh_url,
                            "return_url": return_url,
                        },
                    },
                },
                {"idempotency_key": key},
            )
        return link.url

    def login_link(self, *, account: str) -> str:
        """Return the URL of a single-use way into the provider's own dashboard at Stripe."""
        with outcome():
            return self._v1.accounts.login_links.create(account).url

    def create_transfer(self, *, key: str, order: TransferOrder) -> Transfer:
        """Move money from the platform's balance to the account's."""
        with outcome():
            made = self._v1.transfers.create(
                {
                    "amount": order.amount_minor,
                    "currency": order.currency,
                    "destination": order.destination,
                    "transfer_group": order.group,
                    "metadata": {"payout": order.payout, "provider": order.provider},
                },
                {"idempotency_key": key},
            )
        return reading.transfer(made.to_dict())

    def transfer(self, *, transfer: str) -> Transfer:
        """Return the transfer."""
        with outcome():
            return reading.transfer(self._v1.transfers.retrieve(transfer).to_dict())

    def transfers_of(self, *, group: str) -> list[Transfer]:
        """Return every transfer that carries this group."""
        with outcome():
            found = self._v1.transfers.list({"transfer_group": group, "limit": _PAGE})
            return [reading.transfer(one.to_dict()) for one in found.auto_paging_iter()]

    def transfers_since(self, *, since: datetime) -> Iterator[Transfer]:
        """Return every transfer since then, newest first."""
        with outcome():
            found = self._v1.transfers.list({"created": {"gte": int(since.timestamp())}, "limit": _PAGE})
            for one in found.auto_paging_iter():
                yield reading.transfer(one.to_dict())

    def reverse_transfer(self, *, key: str, transfer: str, amount_minor: int) -> Transfer:
        """Take part of a transfer back, as far as the account still has the money; return the transfer."""
        with outcome():
            made = self._v1.transfers.reversals.create(
                transfer, {"amount": amount_minor, "expand": ["transfer"]}, {"idempotency_key": key}
            )
        return reading.transfer(made.to_dict()["transfer"])

    def bank_payout(self, *, account: str, payout: str) -> BankPayout:
        """Return a connected account's payout to its bank and the transfers that it carried."""
        with outcome():
            found = self._v1.payouts.retrieve(payout, None, {"stripe_account": account})
            lines = self._v1.balance_transactions.list(
                {"payout": payout, "expand": ["data.source"], "limit": _PAGE}, {"stripe_account": account}
            )
            carried = [line.to_dict() for line in lines.auto_paging_iter()]
        return reading.bank_payout(found.to_dict(), carried=carried)
