"""VAT of payouts and their credit notes, tax collected on purchases, and the yearly export."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from django.db import IntegrityError, connection, transaction
from django.urls import reverse

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerTx
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import tax as tax_selectors
from portal.billing.services import ledger, tax_bookings
from portal.billing.services.tax_bookings import TaxBooking
from portal.core.errors import InvalidValue
from portal.payouts.models import CreditNote, Payout, PayoutTax, TaxProfile
from portal.payouts.selectors import earnings, reconcile, tax_years
from portal.payouts.services import approvals, bank, credit_notes, sending, tax_profiles
from portal.payouts.services.tax_profiles import Given, NothingToConfirm
from tests.factories.billing import paid_in
from tests.factories.payouts import PayoutFactory, balance_of, open_shop
from tests.factories.providers import AgreementFactory
from tests.factories.tax import TaxProfileFactory, credit_note
from tests.integration.billing.test_differences import tamper

pytestmark = pytest.mark.django_db
MINOR = 10_000_000


@pytest.fixture(autouse=True)
def issuer(settings):
    """The pool is a German company."""
    settings.ISSUER_NAME, settings.ISSUER_ADDRESS = "Pool GmbH", "Weg 1\n10115 Berlin"
    settings.ISSUER_COUNTRY, settings.ISSUER_TAX_ID = "DE", "DE111111125"


def earning(shop, now, *, minor=10_000, **profile):
    provider = shop.provider(earned_minor=minor, now=now)
    TaxProfileFactory(provider=provider, **profile)
    shop.fund(50_000)
    return provider


def paid(shop, provider, now):
    payout = shop.approved(provider, now=now)
    return sending.send(payout_id=payout.pk, now=now)


def balances_of(provider) -> tuple[int, int, int]:
    kinds = (Kind.PROVIDER_AVAILABLE, Kind.PAYOUT_CLEARING)
    return (*(balance_of(kind, provider.public_id) for kind in kinds), balance_of(Kind.INPUT_VAT))


def test_a_business_is_paid_net_and_vat(shop, now):
    provider = earning(shop, now)

    payout = paid(shop, provider, now)

    assert (payout.amount_minor, payout.state) == (11_900, "transferred")
    assert [one["amount"] for one in shop.transfers(payout)] == [11_900]
    assert balances_of(provider) == (0, 0, 1900 * MINOR)
    made_of = earnings.composition(payout=payout)
    parts = [(part.kind, part.amount_nano) for part in made_of.parts]
    assert (parts, made_of.left_nano) == ([("maturity", 10_000 * MINOR), ("payout_vat", 1900 * MINOR)], 0)
    note = CreditNote.objects.get()
    assert (note.number, note.net_minor, note.vat_minor) == ("CN-2026-000001", 10_000, 1900)
    assert (note.content["gross"], note.content["vat_rate_percent"], note.content["sentence"]) == ("119.00", "19", "")
    assert note.content["transfer"] == payout.stripe_transfer
    assert note.content["supplier"]["tax_id"] == "DE136695976"
    assert reconcile.differences(now=now) == []


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        ({"country": "AT", "tax_id": "ATU13585627"}, "Article 196"),
        ({"status": "private", "tax_id": "", "vat_rate_bps": 0}, "private person"),
        ({"is_small_business": True, "vat_rate_bps": 0}, "small business"),
    ],
)
def test_others_are_paid_net_and_the_note_says_why(shop, now, profile, sentence):
    provider = earning(shop, now, **profile)

    payout = paid(shop, provider, now)

    note = CreditNote.objects.get()
    assert (payout.amount_minor, note.net_minor, note.vat_minor) == (10_000, 10_000, 0)
    assert sentence in note.content["sentence"]
    assert not LedgerTx.objects.filter(kind="payout_vat").exists()


@pytest.mark.parametrize(
    ("profile", "issuer_name", "reason"),
    [
        ({"confirmed_at": None}, "Pool GmbH", "not_confirmed"),
        ({"consented_at": None}, "Pool GmbH", "no_consent"),
        ({"tax_id": ""}, "Pool GmbH", "no_tax_id"),
        ({}, "", "issuer_not_set_up"),
    ],
)
def test_without_what_it_takes_there_is_neither_vat_nor_note(shop, now, settings, profile, issuer_name, reason):
    settings.ISSUER_NAME = issuer_name
    provider = earning(shop, now, **profile)

    payout = paid(shop, provider, now)

    assert (payout.amount_minor, payout.tax.no_note_reason) == (10_000, reason)
    assert not CreditNote.objects.exists()
    assert reconcile.differences(now=now) == []


def test_a_payout_that_is_canceled_owes_no_vat(shop, now):
    provider = earning(shop, now)
    payout = shop.approved(provider, now=now)

    approvals.cancel(payout_public_id=payout.public_id, reason="wrong", actor=SYSTEM_ACTOR, now=now)

    assert balances_of(provider) == (10_000 * MINOR, 0, 0)
    assert not CreditNote.objects.exists()
    assert reconcile.differences(now=now) == []


def test_what_comes_back_is_corrected_in_parts_that_add_up(shop, now):
    provider = earning(shop, now)
    payout = paid(shop, provider, now)
    for amount in (3333, 8567):
        shop.double.control("reverse", transfer=payout.stripe_transfer, amount=amount)
        bank.note_transfer(transfer=payout.stripe_transfer, now=now)
        bank.note_transfer(transfer=payout.stripe_transfer, now=now)

    note, *corrections = CreditNote.objects.order_by("sequence")
    assert [(one.corrects, one.net_minor, one.vat_minor) for one in corrections] == [
        (note, -2801, -532),
        (note, -7199, -1368),
    ]
    assert corrections[0].content["corrects"] == note.number
    assert balances_of(provider) == (10_000 * MINOR, 0, 0)
    assert Payout.objects.get(pk=payout.pk).state == "reversed"
    assert reconcile.differences(now=now) == []


def test_numbers_begin_anew_each_year_and_for_each_issuer(now, settings):
    payouts = [PayoutFactory() for _ in range(4)]
    new_year = datetime(2027, 1, 1, tzinfo=UTC)

    numbers = []
    for payout, at, who in zip(
        payouts, (now, new_year - timedelta(microseconds=1), new_year, new_year), ("A", "A", "A", "B"), strict=True
    ):
        settings.ISSUER_TAX_ID = who
        numbers.append(_issued(payout, at).number)

    assert numbers == ["CN-2026-000001", "CN-2026-000002", "CN-2027-000001", "CN-2027-000001"]


def _issued(payout, now) -> CreditNote:
    PayoutTax.objects.get_or_create(
        payout=payout,
        defaults={
            "treatment": "private",
            "rate_bps": 0,
            "net_minor": payout.amount_minor,
            "vat_minor": 0,
            "supplier": {"name": "N", "address": "A", "country": "DE", "tax_id": "", "consented_at": ""},
        },
    )
    note = credit_notes.issue(payout=payout, now=now)
    assert note is not None
    return note


def test_a_note_is_written_once_and_never_changed(now):
    payout = PayoutFactory()

    assert _issued(payout, now) == _issued(payout, now)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM payouts_creditnote")


@pytest.mark.django_db(transaction=True)
def test_notes_written_at_once_leave_no_gap(now):
    payouts = [PayoutFactory() for _ in range(6)]

    def write(payout):
        try:
            with transaction.atomic():
                _issued(payout, now)
        finally:
            connection.close()

    threads = [Thread(target=write, args=[payout]) for payout in payouts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(CreditNote.objects.values_list("sequence", flat=True)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE payouts_creditnote SET content = '{}'", "credit_note_changed"),
        ("DELETE FROM payouts_creditnote", "credit_note_missing"),
        ("UPDATE payouts_creditnote SET sequence = 2", "credit_note_gap"),
        ("UPDATE payouts_payouttax SET vat_minor = vat_minor - 1", "payout_vat"),
    ],
)
def test_a_tampered_note_is_found(shop, now, statement, code):
    paid(shop, earning(shop, now), now)
    tamper(statement)

    assert code in {one.code for one in reconcile.differences(now=now)}


GIVEN = Given(
    status="business",
    is_small_business=False,
    name="Supplier AG",
    address="Hauptstrasse 1",
    country="DE",
    tax_id="136695976",
    vat_rate_bps=1900,
    does_consent=True,
)


def test_a_profile_keeps_the_consent_and_waits_for_an_operator(world, now):
    agreement = AgreementFactory()
    provider = world.provider

    saved = tax_profiles.save(provider_id=provider.public_id, given=GIVEN, actor=SYSTEM_ACTOR, now=now)

    assert (saved.tax_id, saved.confirmed_at) == ("DE136695976", None)
    assert (saved.consent_version, saved.consent_sha256) == (agreement.version, agreement.sha256)
    with pytest.raises(NothingToConfirm):
        tax_profiles.confirm(provider_id=provider.public_id, changed_at=now - timedelta(1), actor=SYSTEM_ACTOR, now=now)
    tax_profiles.confirm(provider_id=provider.public_id, changed_at=now, actor=SYSTEM_ACTOR, now=now)
    again = tax_profiles.save(provider_id=provider.public_id, given=GIVEN, actor=SYSTEM_ACTOR, now=now + timedelta(1))
    assert again.confirmed_at == now


def test_a_wrong_number_leaves_no_profile(world, now):
    with pytest.raises(InvalidValue):
        tax_profiles.save(
            provider_id=world.provider.public_id,
            given=replace(GIVEN, tax_id="DE136695977"),
            actor=SYSTEM_ACTOR,
            now=now,
        )

    assert not TaxProfile.objects.exists()


def test_the_pages_lead_from_profile_to_confirmation(world):
    browser = world.client(world.supplier.owner)
    form = {
        "status": "business",
        "name": "Supplier AG",
        "address": "Hauptstrasse 1",
        "country": "DE",
        "tax_id": "DE136695976",
        "vat_rate": "19",
        "does_consent": "on",
    }
    refused = browser.post("/provider/tax/", form | {"tax_id": "DE1"})
    assert "no tax number" in refused.content.decode()

    assert browser.post("/provider/tax/", form).status_code == 302
    profile = TaxProfile.objects.get()
    operator = world.client(world.operator)
    assert "Supplier AG" in operator.get("/operator/tax/").content.decode()
    operator.post(
        f"/operator/tax/profiles/{world.provider.public_id}/confirm/", {"changed_at": profile.changed_at.isoformat()}
    )

    profile.refresh_from_db()
    assert profile.confirmed_by == world.operator.public_id
    assert "19% come on top" in browser.get("/provider/tax/").content.decode()


def test_a_credit_note_is_its_providers_alone(world):
    note = credit_note(world.provider)
    url = reverse("provider:credit-note", args=[note.public_id])

    mine = world.client(world.supplier.owner).get(url)

    assert (mine.status_code, mine["content-type"]) == (200, "application/pdf")
    assert mine.content.startswith(b"%PDF")
    assert world.client(world.stranger).get(url).status_code == 404


def test_tax_is_owed_until_it_is_paid(now):
    parts = paid_in(organization="org_a", net=100, tax=19)
    ledger.post(kind="topup", key="t", source_type="topup", source_id="t", transfers=parts, actor=SYSTEM_ACTOR, now=now)
    with pytest.raises(InvalidValue):
        tax_bookings.book(booking=TaxBooking.PAID, amount_nano=20, reference="2026-11", actor=SYSTEM_ACTOR, now=now)

    for _ in range(2):
        tax_bookings.book(booking=TaxBooking.PAID, amount_nano=19, reference="2026-11", actor=SYSTEM_ACTOR, now=now)

    (month,) = tax_selectors.months()
    assert (month.month, month.collected_nano, month.discharged_nano) == ("2026-11", 19, 19)
    assert balance_of(Kind.TAX_PAYABLE) == 0
    assert balance_of(Kind.OWNER_EQUITY) == 19


def test_a_year_adds_up_for_each_provider(shop, now, world):
    provider = earning(shop, now)
    payout = paid(shop, provider, now)
    shop.double.control("reverse", transfer=payout.stripe_transfer, amount=1190)
    bank.note_transfer(transfer=payout.stripe_transfer, now=now)

    (year,) = tax_years.provider_years(year=2026)

    total = year.opening_nano + year.earned_nano + year.adjustments_nano + year.vat_nano - year.paid_nano
    assert (total, year.closing_nano) == (1000 * MINOR, 1000 * MINOR)
    assert (year.vat_nano, year.paid_nano, year.credit_notes) == (1710 * MINOR, 10_710 * MINOR, 2)
    answer = world.client(world.operator).get("/operator/tax/2026.csv")
    header, line = b"".join(answer.streaming_content).decode().splitlines()
    found = dict(zip(header.split(","), line.split(","), strict=True))
    assert (found["tax_id"], found["tax_country"], found["vat"], found["paid_out"]) == (
        "DE136695976",
        "DE",
        "17.1",
        "107.1",
    )


def test_whole_units_stay_whole_with_vat(now):
    with open_shop(currency="huf") as shop:
        provider = earning(shop, now, minor=1_000_550, vat_rate_bps=2700)
        shop.fund(5_000_000)

        payout = paid(shop, provider, now)

        assert (payout.amount_minor, payout.state) == (1_000_500 + 270_100, "transferred")
