"""The control API's part about money: balances, cards, refunds, disputes, warnings, accounts, banks."""

from collections.abc import Callable

from portal.sandbox.stripe_double import (
    accounts,
    balances,
    banks,
    buying,
    cards,
    disputes,
    refunds,
    transfers,
    warnings,
)
from portal.sandbox.stripe_double.clock import tick
from portal.sandbox.stripe_double.control_words import flag, number, text, word
from portal.sandbox.stripe_double.faults import Body, invalid
from portal.sandbox.stripe_double.store import Store


class MoneyControl:
    """What buyers, banks, card networks and Stripe's own people do."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def calls(self) -> dict[str, Callable[[Body], Body]]:
        """Return the controls by name."""
        return {
            "account": self._account,
            "account/bank": self._account_bank,
            "account/debt": self._account_debt,
            "bank/end": self._bank_end,
            "bank/run": self._bank_run,
            "card": self._card,
            "dispute": self._dispute,
            "dispute/end": self._dispute_end,
            "dispute/withdraw": self._dispute_withdraw,
            "drain": self._drain,
            "fund": self._fund,
            "refund": self._refund,
            "refund/end": self._refund_end,
            "reverse": self._reverse,
            "settle": self._settle,
            "warning": self._warning,
        }

    def _drain(self, body: Body) -> Body:
        leave = number(body, "leave", default=0)
        reference = self._store.new_id("po")
        return {"drained": balances.drain(self._store, self._currency(body), leave=leave, reference=reference)}

    def _fund(self, body: Body) -> Body:
        line = balances.Line("topup", number(body, "amount"), self._currency(body), self._store.new_id("tu"))
        balances.book(self._store, line)
        tick(self._store)
        return {"funded": line.amount}

    def _account(self, body: Body) -> Body:
        move = word(body, "move", set(accounts.MOVES))
        account = self._store.get("v2.core.account", text(body, "account"))
        due_in_s = number(body, "due_in_s", default=0)
        return accounts.change(self._store, account, accounts.MOVES[move], bank=text(body, "bank"), due_in_s=due_in_s)

    def _account_bank(self, body: Body) -> Body:
        account = self._store.get("v2.core.account", text(body, "account"))
        if not text(body, "bank"):
            raise invalid("bank must be a bank account number", param="bank")
        return accounts.change_bank(self._store, account, bank=text(body, "bank"), currency=text(body, "currency"))

    def _account_debt(self, body: Body) -> Body:
        account, currency = self._store.get("v2.core.account", text(body, "account")), self._currency(body)
        amount, name = number(body, "amount"), str(account["id"])
        line = balances.Line("adjustment", -amount, currency, self._store.new_id("adj"))
        balances.book(self._store, line, account=name)
        return {"available": balances.available(self._store, currency, account=name)}

    def _card(self, body: Body) -> Body:
        """The bank behind a saved card changes its mind; without one, what the page's card is from now on."""
        card = cards.by_number(text(body, "behaves_like"))
        if text(body, "payment_method"):
            cards.behave(self._store, self._store.get("payment_method", text(body, "payment_method")), card)
        else:
            self._store.set_meta("checkout_card", card.number)
        return {"behaves_like": card.number, "title": card.title}

    def _refund(self, body: Body) -> Body:
        """Somebody refunds in Stripe's dashboard."""
        charge = self._store.get("charge", text(body, "charge"))
        return refunds.give_back(self._store, charge, refunds.Wish(number(body, "amount", default=0)))

    def _refund_end(self, body: Body) -> Body:
        refund, is_good = self._store.get("refund", text(body, "refund")), flag(body, "is_good", default=True)
        return refunds.end(self._store, refund, is_good=is_good)

    def _dispute(self, body: Body) -> Body:
        charge = self._store.get("charge", text(body, "charge"))
        reason = word(body, "reason", disputes.REASONS, default="fraudulent")
        is_withdrawn = flag(body, "is_withdrawn", default=True)
        return disputes.open_dispute(self._store, charge, reason=reason, is_withdrawn=is_withdrawn)

    def _dispute_withdraw(self, body: Body) -> Body:
        return disputes.withdraw(self._store, self._store.get("dispute", text(body, "dispute")))

    def _dispute_end(self, body: Body) -> Body:
        dispute = self._store.get("dispute", text(body, "dispute"))
        return disputes.close(self._store, dispute, is_won=flag(body, "is_won", default=True))

    def _warning(self, body: Body) -> Body:
        charge = self._store.get("charge", text(body, "charge"))
        kind = word(body, "type", warnings.KINDS, default="made_with_stolen_card")
        return warnings.warn(self._store, charge, kind=kind)

    def _reverse(self, body: Body) -> Body:
        transfer = self._store.get("transfer", text(body, "transfer"))
        return transfers.reverse(self._store, transfer, amount=number(body, "amount", default=0))

    def _settle(self, body: Body) -> Body:
        session = self._store.get("checkout.session", text(body, "session"))
        return buying.settle(self._store, session, is_good=flag(body, "is_good", default=True))

    def _bank_run(self, body: Body) -> Body:
        return {"payouts": banks.run_bank_payouts(self._store)}

    def _bank_end(self, body: Body) -> Body:
        is_good = flag(body, "is_good", default=True)
        return banks.end_bank_payout(self._store, text(body, "account"), text(body, "payout"), is_good=is_good)

    def _currency(self, body: Body) -> str:
        return text(body, "currency") or self._store.meta("currency", "usd")
