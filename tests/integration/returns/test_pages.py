"""The pages as their users press them: ask and take back, approve and decline, decide, pin, stop, rule."""

import pytest
from django.urls import reverse

from portal.accounts.models import Organization
from portal.billing.models import CustomerRisk, FraudWarning, Refund, RelatedPair, SpendingStop
from portal.billing.services import disputes, fraud_warnings, topups
from tests.factories.accounts import OrganizationFactory
from tests.factories.returns import RelatedPairFactory
from tests.integration.returns.till import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
def topup(shop, world, now):
    """A paid purchase of the world's customer."""
    begun = shop.start(world.customer.organization, world.customer.owner, amount=5000, now=now)
    shop.post_page(begun.checkout_url, "pay")
    return topups.fulfil(topup_id=begun.pk, now=now)


def press(browser, name, *args, **form):
    """Press a button and return the page that it leads to."""
    return browser.post(reverse(name, args=args), form, follow=True)


def test_a_customer_asks_and_takes_back(world, topup):
    browser = world.client(world.customer.admin)

    page = press(browser, "customer:refunds", purchase=topup.public_id, amount="12.50", note="unused")
    refund = Refund.objects.get()
    assert (refund.amount_minor, refund.state, standing(topup)) == (1250, "requested", (3750, 0, 1250))
    assert "The operator of the pool decides" in page.content.decode()
    press(browser, "customer:refund-cancel", refund.public_id)

    refund.refresh_from_db()
    assert (refund.state, standing(topup)) == ("canceled", (5000, 0, 0))


def test_what_cannot_be_an_amount_changes_nothing(world, topup):
    browser, url = world.client(world.customer.owner), reverse("customer:refunds")

    for amount in ("", "x", "-1", "0", "12.345", "50.01", "1e3"):
        page = browser.post(url, {"purchase": topup.public_id, "amount": amount, "note": ""})

        said = page.context["form"].errors
        assert (amount, page.status_code, list(said)) == (amount, 200, ["amount"])

    assert (Refund.objects.count(), standing(topup)) == (0, (5000, 0, 0))


def test_nobody_asks_for_anothers_purchase(world, topup):
    browser = world.client(world.stranger)

    press(browser, "customer:refunds", purchase=topup.public_id, amount="1", note="")

    assert (Refund.objects.count(), standing(topup)) == (0, (5000, 0, 0))


def test_an_operator_declines_with_a_reason(world, topup):
    press(world.client(world.customer.owner), "customer:refunds", purchase=topup.public_id, amount="10", note="")
    refund, browser = Refund.objects.get(), world.client(world.operator)

    refused = press(browser, "operators:refund-act", refund.public_id, action="cancel", reason=" ")
    assert (refused.status_code, Refund.objects.get().state) == (400, "requested")
    press(browser, "operators:refund-act", refund.public_id, action="cancel", reason="please write to us")

    refund.refresh_from_db()
    assert (refund.state, refund.state_reason) == ("canceled", "please write to us")


def test_an_operator_refunds_stops_lifts_and_pins(world, topup):
    name, owner, browser = "operators:customer-risk-act", topup.organization.public_id, world.client(world.operator)

    press(browser, name, owner, action="refund", purchase=topup.public_id, amount="3", note="goodwill")
    press(browser, name, owner, action="stop", note="odd requests")
    assert Organization.objects.get(public_id=owner).stopped_for == "operator"
    press(browser, name, owner, action="lift", stop=SpendingStop.objects.get().pk, note="explained")
    press(browser, name, owner, action="pin", tier="trusted", note="known for years")

    assert Refund.objects.values_list("amount_minor", "state", "origin").get() == (300, "reserved", "operator")
    assert Organization.objects.get(public_id=owner).stopped_for == ""
    assert CustomerRisk.objects.get().in_force == "trusted"


def test_an_operator_decides_on_a_warning_and_sends_evidence(world, topup, shop, now):
    browser = world.client(world.operator)
    warning = shop.double.control("warning", charge=topup.charge)["id"]
    fraud_warnings.read(warning=warning, now=now)
    press(browser, "operators:fraud-warning-decide", warning, action="dismiss", note="they called")
    assert FraudWarning.objects.get().state == "dismissed"
    made = shop.double.control("dispute", charge=topup.charge)["id"]
    disputes.read(dispute=made, now=now)
    overview = browser.get(reverse("operators:overview")).content.decode()
    assert "<strong>1 dispute</strong> to answer, the first by" in overview
    assert "fraud warning" not in overview

    page = press(browser, "operators:dispute-submit", made, note="They used it.")

    assert "The evidence is with the bank" in page.content.decode()
    assert shop.double.store.get("dispute", made)["evidence"]["customer_name"] == "Custom GmbH"


def test_an_operator_rules_on_a_pair(world):
    pair = RelatedPairFactory(low=world.customer.organization, high=OrganizationFactory())

    press(world.client(world.operator), "operators:related-rule", pair.pk, ruling="related", note="one household")

    assert RelatedPair.objects.values_list("is_related", "ruling_note").get() == (True, "one household")
