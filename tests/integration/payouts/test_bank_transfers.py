"""Payouts that operators make at their own bank: details with care, an order, a confirmation, and what comes back."""

from datetime import date, timedelta
from xml.etree import ElementTree as ET

import pytest

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.services import reconcile as ledger_check
from portal.core import sealing
from portal.core.errors import InvalidValue
from portal.notifications.models import Message
from portal.payouts.errors import (
    BankDetailsInvalid,
    ManualRailClosed,
    NotAnOperator,
    PayoutMoveRefused,
    PayoutNotSendable,
    PayoutOpenToAccount,
    SecondFactorNeeded,
    SecondOperatorNeeded,
)
from portal.payouts.models import BankAccount, Payout
from portal.payouts.rules.bank_files import NAMESPACE
from portal.payouts.selectors import outlook
from portal.payouts.selectors import payouts as selectors
from portal.payouts.selectors import reconcile as checks
from portal.payouts.services import approvals, bank_accounts, bank_files, drafts, manual, sending
from portal.payouts.services.bank_accounts import Given
from tests.factories.accounts import UserFactory
from tests.factories.billing import EarningProviderFactory
from tests.factories.payouts import IBAN, balance_of, earn

pytestmark = pytest.mark.django_db

NANO = 10_000_000
OWNER = Actor(public_id="user_owner", address="198.51.100.4")
GIVEN = Given(scheme="iban", holder="Supplier AG", account="DE89 3704 0044 0532 0130 00", bank="")
DAY = date(2026, 11, 2)


@pytest.fixture(autouse=True)
def by_bank(settings):
    """A pool that pays by bank transfer too."""
    settings.MANUAL_PAYOUTS = True
    settings.PAYOUT_MINIMUM_MINOR = 100


def give(provider, now, given: Given = GIVEN) -> BankAccount:
    """Let the provider's owner give bank details, just after the second factor."""
    return bank_accounts.give(provider=provider, given=given, confirmed_at=now, actor=OWNER, now=now)


def checked(now, *, minor: int = 2550):
    """Return a provider with money to be paid and checked bank details; no Stripe is there."""
    provider = EarningProviderFactory(is_identified=False)
    earn(provider, minor=minor, now=now)
    bank_accounts.verify(bank_account=give(provider, now).public_id, actor=SYSTEM_ACTOR, now=now)
    provider.refresh_from_db()
    return provider


def approved(provider, now) -> Payout:
    """Draft a run and approve the provider's payout."""
    (payout,) = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts
    operator = UserFactory(is_operator=True)
    return approvals.approve(payout_public_id=payout.public_id, approver=operator, actor=SYSTEM_ACTOR, now=now)


def ordered(payout, now, *, by=None) -> Payout:
    """Let operator A order it at the bank."""
    return manual.mark_sent(
        payout_public_id=payout.public_id,
        reference="BATCH 7",
        ordered_on=DAY,
        operator=by or UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )


def books(provider) -> tuple[int, int, int]:
    """Return available, set aside, and the pool's own bank, in minor units."""
    owner = provider.public_id
    pairs = (("provider_available", owner), ("payout_clearing", owner), ("bank_balance", ""))
    available, clearing, bank = (balance_of(*pair) // NANO for pair in pairs)
    return available, clearing, bank


def test_details_are_sealed_and_shown_by_their_end(now):
    row = give(EarningProviderFactory(), now)

    assert (row.last4, row.country, row.state) == ("3000", "DE", "submitted")
    assert "0532013000" not in row.details
    assert "0532013000" not in str(list(AuditEvent.objects.values_list("detail", flat=True)))
    assert "0532013000" not in str(list(Message.objects.values_list("context", flat=True)))
    assert bank_accounts.details_of(row) == IBAN


def test_who_looks_at_the_whole_account_is_recorded(now):
    row = give(EarningProviderFactory(), now)
    operator = Actor(public_id="user_operator", address="192.0.2.1")

    shown = bank_accounts.reveal(bank_account=row.public_id, purpose="check", actor=operator, now=now)

    event = AuditEvent.objects.get(event="bank_account.shown")
    assert shown.account == "DE89370400440532013000"
    assert (event.actor, event.subject, event.detail["purpose"]) == ("user_operator", row.public_id, "check")


def test_an_older_secret_key_still_opens_them(now, settings):
    row = give(EarningProviderFactory(), now)
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another " * 8

    assert bank_accounts.details_of(row) == IBAN
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(sealing.SealBroken):
        bank_accounts.details_of(row)


def test_without_a_second_factor_no_details_are_taken(now):
    provider = EarningProviderFactory()

    with pytest.raises(SecondFactorNeeded):
        bank_accounts.give(provider=provider, given=GIVEN, confirmed_at=None, actor=OWNER, now=now)

    assert BankAccount.objects.count() == 0


@pytest.mark.parametrize(
    ("scheme", "account", "bank", "param"),
    [
        ("iban", "DE89370400440532013001", "", "account"),
        ("iban", "DE8937040044053201300", "", "account"),
        ("us", "000123456789", "110000001", "bank"),
        ("us", "12", "110000000", "account"),
        ("swift", "1234567", "XXXX", "bank"),
        ("cheque", "1", "2", "scheme"),
    ],
)
def test_details_that_cannot_be_right_leave_nothing_behind(now, scheme, account, bank, param):
    with pytest.raises(BankDetailsInvalid) as refused:
        give(EarningProviderFactory(), now, Given(scheme=scheme, holder="A", account=account, bank=bank))

    assert (refused.value.param, BankAccount.objects.count()) == (param, 0)


def test_a_pool_without_bank_transfers_takes_none(now, settings):
    settings.MANUAL_PAYOUTS = False

    with pytest.raises(ManualRailClosed):
        give(EarningProviderFactory(), now)


def test_checked_details_identify_the_provider_and_are_paid_to(now):
    provider = checked(now)

    payout = approved(provider, now)

    assert provider.is_identified is True
    assert (payout.rail, payout.state, payout.amount_minor) == ("manual", "approved", 2550)
    assert payout.destination == BankAccount.objects.get().public_id
    assert payout.fee_minor == 0


def test_unchecked_details_are_not_paid_to(now):
    provider = EarningProviderFactory()
    earn(provider, minor=2550, now=now)
    give(provider, now)

    (skipped,) = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).skipped

    assert skipped.reason.code == "bank_details_unchecked"
    assert outlook.outlook(provider=provider, now=now).reason == skipped.reason


def test_a_transfer_is_never_sent_by_stripe(now):
    payout = approved(checked(now), now)

    assert selectors.to_send() == []
    with pytest.raises(PayoutNotSendable):
        sending.send(payout_id=payout.pk, now=now)


def test_an_order_books_nothing_and_the_confirmation_does(now):
    provider = checked(now)
    payout = approved(provider, now)

    at_bank = ordered(payout, now)
    assert (at_bank.state, books(provider)) == ("at_bank", (0, 2550, 0))
    done = manual.confirm(
        payout_public_id=payout.public_id,
        paid_on=DAY,
        operator=UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )

    assert (done.state, done.stripe_transfer, books(provider)) == ("transferred", None, (0, 0, -2550))
    assert checks.differences(now=now) == []
    assert ledger_check.differences(now=now) == []
    assert [event.event for event in AuditEvent.objects.filter(subject=payout.public_id).order_by("pk")] == [
        "payout.reserved",
        "payout.approved",
        "payout.at_bank",
        "payout.transferred",
    ]


def test_with_two_approvers_another_operator_confirms(now, settings):
    payout = approved(checked(now), now)
    settings.PAYOUT_APPROVERS = 2
    first, second = UserFactory(is_operator=True), UserFactory(is_operator=True)
    approvals.PayoutApproval.objects.create(
        payout=payout, approved_by=second, approval_hash=payout.approval_hash, approved_at=now
    )
    ordered(payout, now, by=first)

    def confirm(person):
        return manual.confirm(
            payout_public_id=payout.public_id, paid_on=DAY, operator=person, actor=SYSTEM_ACTOR, now=now
        )

    with pytest.raises(SecondOperatorNeeded):
        confirm(first)
    assert Payout.objects.get().state == "at_bank"
    assert confirm(second).state == "transferred"


def test_only_operators_order_and_a_reference_is_needed(now):
    payout = approved(checked(now), now)

    with pytest.raises(NotAnOperator):
        ordered(payout, now, by=UserFactory())
    with pytest.raises(InvalidValue):
        manual.mark_sent(
            payout_public_id=payout.public_id,
            reference=" ",
            ordered_on=DAY,
            operator=UserFactory(is_operator=True),
            actor=SYSTEM_ACTOR,
            now=now,
        )
    assert Payout.objects.get().state == "approved"


def test_an_order_that_was_not_given_is_taken_back(now):
    provider = checked(now)
    payout = ordered(approved(provider, now), now)

    back = manual.take_back(
        payout_public_id=payout.public_id,
        reason="wrong file",
        operator=UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )

    assert (back.state, books(provider)) == ("approved", (0, 2550, 0))
    assert ordered(payout, now).state == "at_bank"


def test_what_our_bank_refuses_is_available_again(now):
    provider = checked(now)
    payout = ordered(approved(provider, now), now)

    done = manual.refused(
        payout_public_id=payout.public_id,
        reason="account closed",
        operator=UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=now,
    )

    assert (done.state, books(provider)) == ("rejected", (2550, 0, 0))
    assert checks.differences(now=now) == []


def test_a_returned_transfer_is_a_posting_of_its_own(now):
    provider = checked(now)
    payout = ordered(approved(provider, now), now)
    operator = UserFactory(is_operator=True)
    given = {"payout_public_id": payout.public_id, "operator": operator, "actor": SYSTEM_ACTOR, "now": now}
    manual.confirm(paid_on=DAY, **given)

    done = manual.returned(reason="AC04 closed account", returned_on=DAY, **given)

    account = BankAccount.objects.get()
    assert (done.state, done.reversed_minor, books(provider)) == ("reversed", 2550, (2550, 0, 0))
    assert (account.state, account.reason) == ("refused", "a transfer came back: AC04 closed account")
    assert checks.differences(now=now) == []
    assert ledger_check.differences(now=now) == []
    with pytest.raises(PayoutMoveRefused):
        manual.returned(reason="again", returned_on=DAY, **given)
    assert [one.reason.code for one in drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).skipped] == ["no_account"]


def test_details_are_not_replaced_while_a_payout_goes_to_them(now):
    provider = checked(now)
    approved(provider, now)

    with pytest.raises(PayoutOpenToAccount):
        give(provider, now, Given(scheme="iban", holder="B", account="GB29NWBK60161331926819", bank=""))

    assert BankAccount.objects.get().last4 == "3000"


def test_other_details_wait_for_a_check_and_rest_for_72_hours(now):
    provider = checked(now)
    other = give(provider, now, Given(scheme="iban", holder="B", account="GB29NWBK60161331926819", bank=""))
    bank_accounts.verify(bank_account=other.public_id, actor=SYSTEM_ACTOR, now=now)

    early = drafts.draft_payouts(now=now + timedelta(hours=71), actor=SYSTEM_ACTOR)
    late = drafts.draft_payouts(now=now + timedelta(hours=72), actor=SYSTEM_ACTOR)

    assert [one.reason.code for one in early.skipped] == ["destination_changed"]
    assert [one.destination for one in late.payouts] == [other.public_id]
    assert list(BankAccount.objects.order_by("pk").values_list("state", flat=True)) == ["replaced", "verified"]


def test_withdrawn_details_are_not_paid_to(now):
    provider = checked(now)

    bank_accounts.withdraw(provider=provider, confirmed_at=now, actor=OWNER, now=now)

    provider.refresh_from_db()
    assert (BankAccount.objects.get().state, provider.is_identified) == ("withdrawn", False)
    (skipped,) = drafts.draft_payouts(now=now + timedelta(hours=72), actor=SYSTEM_ACTOR).skipped
    assert skipped.reason.code == "no_account"


def test_the_file_for_the_bank_and_who_took_it(now):
    payout = approved(checked(now), now)

    text = bank_files.table(actor=Actor("user_operator"), now=now)

    assert text.splitlines()[1] == (
        f"{payout.public_id},Supplier AG,iban,DE89370400440532013000,COBADEFFXXX,DE,25.50,USD,"
        f"Poolhouse {payout.public_id}"
    )
    event = AuditEvent.objects.get(event="payout.bank_file")
    assert (event.actor, event.subject, event.detail["kind"]) == ("user_operator", payout.public_id, "csv")


def test_nothing_approved_makes_no_file(now):
    with pytest.raises(bank_files.NothingToPay):
        bank_files.table(actor=SYSTEM_ACTOR, now=now)


def test_sepa_carries_euro_to_ibans_alone(now, settings):
    approved(checked(now), now)
    settings.PAYOUT_BANK_IBAN = "DE02120300000000202051"

    with pytest.raises(bank_files.NotSepa):
        bank_files.sepa(actor=SYSTEM_ACTOR, now=now)

    assert AuditEvent.objects.filter(event="payout.bank_file").count() == 0


def test_a_sepa_order_names_every_transfer(now, settings):
    settings.CURRENCY = "eur"
    settings.PAYOUT_BANK_NAME, settings.PAYOUT_BANK_IBAN = "Pool Betriebs GmbH", "DE02120300000000202051"
    provider = EarningProviderFactory()
    earn(provider, minor=123_456, now=now, currency="eur")
    bank_accounts.verify(bank_account=give(provider, now).public_id, actor=SYSTEM_ACTOR, now=now)
    payout = approved(provider, now)

    root = ET.fromstring(bank_files.sepa(actor=SYSTEM_ACTOR, now=now))  # noqa: S314  our own text

    def text(path: str) -> str:
        return root.findtext("/".join(f"{{{NAMESPACE}}}{step}" for step in path.split("/"))) or ""

    part = "CstmrCdtTrfInitn/PmtInf/CdtTrfTxInf"
    assert text("CstmrCdtTrfInitn/GrpHdr/CtrlSum") == "1234.56"
    assert text("CstmrCdtTrfInitn/PmtInf/DbtrAcct/Id/IBAN") == "DE02120300000000202051"
    assert text(f"{part}/PmtId/EndToEndId") == payout.public_id.replace("_", "-")
    assert text(f"{part}/Amt/InstdAmt") == "1234.56"
    assert text(f"{part}/CdtrAcct/Id/IBAN") == "DE89370400440532013000"
