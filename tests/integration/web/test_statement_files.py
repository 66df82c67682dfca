"""Statements as files: the PDF holds all that the page shows and is the same bytes whenever it is made."""

import re
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from portal.accounts.models import Organization
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import Statement
from portal.billing.rules import statements as rules
from portal.billing.rules.periods import month_of
from portal.billing.selectors.statements import Party
from portal.billing.services import posting, prices, statements
from portal.providers.models import Provider
from portal.web import statement_pages, statement_pdf
from tests.factories.accounts import MembershipFactory, UserFactory
from tests.factories.billing import DELIVERED, TERMS, Market
from tests.world import World

pytestmark = pytest.mark.django_db
AFTER = datetime(2026, 12, 2, tzinfo=UTC)
_ESCAPES = {b"r": b"\r", b"n": b"\n", b"t": b"\t"}


@pytest.fixture
def market() -> Market:
    """November, with usage at two versions of a price, closed and frozen."""
    made = Market()
    made.serve()
    made.price = prices.set_price(model=made.model, terms=TERMS, actor=SYSTEM_ACTOR, now=DELIVERED + timedelta(hours=1))
    made.serve(closed_at=DELIVERED + timedelta(hours=2))
    posting.post_usage(now=DELIVERED + timedelta(hours=3))
    statements.freeze_month(now=AFTER)
    return made


def shown(kind: str, public_id: str) -> statement_pages.Shown:
    return statement_pages.find(Party(kind, public_id), month="2026-11", now=AFTER)


def pdf_of(kind: str, public_id: str) -> bytes:
    return statement_pages.as_pdf(shown(kind, public_id)).content


def words(pdf: bytes) -> str:
    """Return what the PDF's pages say: each glyph is written by its number, which the font maps to a letter."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL)
    text = b"\n".join(zlib.decompress(found) if found[:1] == b"x" else found for found in streams)
    pairs = re.findall(rb"<([0-9A-Fa-f]{4})> <([0-9A-Fa-f]{4,8})>", text)
    letters = {int(code, 16): bytes.fromhex(letter.decode()).decode("utf-16-be") for code, letter in pairs}
    return "\n".join(_line(raw, letters) for raw in re.findall(rb"\((.*?)(?<!\\)\) Tj", text, re.DOTALL))


def _line(raw: bytes, letters: dict[int, str]) -> str:
    plain = re.sub(rb"\\([()\\rnt])", lambda found: _ESCAPES.get(found[1], found[1]), raw)
    return "".join(letters.get(int.from_bytes(plain[i : i + 2], "big"), "?") for i in range(0, len(plain), 2))


def test_the_same_statement_gives_the_same_bytes_whatever_was_renamed(market):
    name = market.provider.public_id
    before = pdf_of("provider", name)

    Provider.objects.update(legal_name="Renamed AG")
    Organization.objects.update(name="Renamed")

    assert pdf_of("provider", name) == before
    assert before.startswith(b"%PDF-")


def test_another_statement_gives_other_bytes(market):
    assert pdf_of("provider", market.provider.public_id) != pdf_of("customer", market.customer.public_id)


def test_it_names_party_lines_sums_prices_dust_and_digest(market):
    stored = Statement.objects.get(kind="provider")

    said = words(pdf_of("provider", market.provider.public_id))

    for expected in (
        stored.number,
        market.provider.legal_name,
        market.model.public_id,
        "Owed to you at the end",
        "Prices that applied, per million tokens and per request",
        f"SHA-256 {stored.sha256}",
        "Carried over: 0.00096 USD",
        "80 %",
        "Page 1 of",
    ):
        assert expected in said


def test_the_price_versions_are_frozen_with_it(market):
    content = rules.from_json(Statement.objects.get(kind="provider").content)

    assert [(line.version, line.requests, line.share_bps, line.prompt_nano) for line in content.prices] == [
        (1, 1, 8000, 200_000_000),
        (2, 1, 8000, 200_000_000),
    ]
    assert content.dust_nano == content.closing_nano == 960_000
    customer = rules.from_json(Statement.objects.get(kind="customer").content)
    assert [(line.version, line.share_bps) for line in customer.prices] == [(1, 0), (2, 0)]


def test_many_lines_go_over_many_pages(market):
    plain = Statement.objects.get(kind="provider").content
    content = rules.from_json(plain | {"usage": plain["usage"] * 200})
    head = statement_pdf.Head(("Pool", "https://pool.example"), ("Łódź GmbH",), "P-1", "2026-11", "f" * 64, AFTER)

    said = words(statement_pdf.render(content, head))

    assert said.count(market.node.public_id[:8]) >= 200
    assert "Page 6 of" in said
    assert "Łódź GmbH" in said


def test_an_open_month_has_no_number_and_says_so(market):
    open_month = statement_pages.find(
        Party("provider", market.provider.public_id), month=str(month_of(AFTER)), now=AFTER
    )

    said = words(statement_pages.as_pdf(open_month).content)

    assert "The month is open" in said


def test_a_month_ends_one_second_later_for_everybody(market):
    """Usage of the last second belongs to the month, usage of the next to the next, whatever a clock's zone shows."""
    ends = datetime(2026, 12, 1, tzinfo=UTC)

    assert month_of(ends - timedelta(seconds=1)) == month_of(DELIVERED)
    assert str(month_of(ends)) == "2026-12"


def test_members_download_their_own(market, world: World):
    member = UserFactory()
    MembershipFactory(organization=market.customer, user=member)
    own = world.client(member, market.customer).get(reverse("customer:statement-pdf"), {"month": "2026-11"})
    other = world.client(world.customer.owner).get(reverse("customer:statement-pdf"), {"month": "2026-11"})

    assert own["content-type"] == "application/pdf"
    assert own["content-disposition"] == 'attachment; filename="statement-C-2026-11-0001.pdf"'
    assert own.content == pdf_of("customer", market.customer.public_id)
    assert other.content != own.content
    wrong = world.client(member, market.customer).get(reverse("customer:statement-pdf"), {"month": "x"})
    assert wrong.status_code == 404


def test_the_csv_adds_up_and_names_the_prices(market):
    lines = statement_pages.as_csv(shown("provider", market.provider.public_id)).splitlines()

    prices_said = [line for line in lines if line.startswith("price,")]
    assert len(prices_said) == 2
    assert "version 1: prompt 0.2, cached 0.05, completion 0.8 per million tokens" in prices_said[0]
    assert "share 8000 bps" in prices_said[0]
