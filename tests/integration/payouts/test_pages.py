"""The pages, used as a browser without JavaScript uses them: buy credit, get paid, run payouts."""

import re

import pytest
from django.urls import reverse

from portal.billing.models import TopUp
from portal.core import clock
from portal.payouts.models import Payout
from tests.factories.payouts import balance_of, earn
from tests.world import World

pytestmark = pytest.mark.django_db


def hidden(page, name: str) -> str:
    """Return the value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]+)"', page.content.decode())
    assert found is not None
    return found.group(1)


def test_a_customer_buys_credit(shop, world: World):
    browser = world.client(world.customer.owner)
    page = browser.get(reverse("customer:credit"))
    assert page.status_code == 200

    answer = browser.post(reverse("customer:credit"), {"amount": "50.00", "client_key": hidden(page, "client_key")})
    assert answer.status_code == 302
    assert answer["location"].startswith(shop.double.url)
    assert f"form-action {shop.double.url}" in answer["content-security-policy"].replace("'self' ", "")

    back = shop.post_page(answer["location"], "pay").removeprefix("http://testserver")
    seen = browser.get(back)

    topup = TopUp.objects.get()
    assert (back, topup.state) == (reverse("customer:topup", args=[topup.public_id]), "paid")
    assert "The credit is on your account." in seen.content.decode()
    assert balance_of("customer_credit", world.customer.organization.public_id) == 50_000_000_000
    assert "$50.00" in browser.get(reverse("customer:credit")).content.decode()


def test_a_second_click_is_the_same_purchase(shop, world: World):
    browser = world.client(world.customer.owner)
    form = {"amount": "50", "client_key": hidden(browser.get(reverse("customer:credit")), "client_key")}

    first, second = (browser.post(reverse("customer:credit"), form)["location"] for _ in range(2))

    assert first == second
    assert TopUp.objects.count() == 1


@pytest.mark.parametrize("amount", ["", "ten", "-5", "1", "50.001", "1e3", "99999999"])
def test_an_amount_that_cannot_be_bought_is_explained(shop, world: World, amount):
    answer = world.client(world.customer.owner).post(reverse("customer:credit"), {"amount": amount, "client_key": "k"})

    assert (answer.status_code, TopUp.objects.count()) == (200, 0)
    assert "errorlist" in answer.content.decode()


def test_stripe_out_of_reach_is_explained_and_can_be_tried_again(shop, world: World):
    browser = world.client(world.customer.owner)
    shop.double.control("fail", path="/v1/checkout/sessions", kind="reset", when="after", count=3)

    answer = browser.post(reverse("customer:credit"), {"amount": "50", "client_key": "k"})
    assert "press the button once more" in answer.content.decode()

    again = browser.post(reverse("customer:credit"), {"amount": "50", "client_key": "k"})
    assert again.status_code == 302
    assert len(shop.double.store.all("checkout.session")) == 1


def test_without_stripe_the_page_says_so(world: World, settings):
    settings.STRIPE_API_KEY = ""

    answer = world.client(world.customer.owner).post(reverse("customer:credit"), {"amount": "50", "client_key": "k"})

    assert "Stripe is not set up here" in answer.content.decode()


def test_anothers_purchase_is_not_there(shop, world: World):
    browser = world.client(world.customer.owner)
    browser.post(reverse("customer:credit"), {"amount": "50", "client_key": "k"})
    url = reverse("customer:topup", args=[TopUp.objects.get().public_id])

    assert world.client(world.stranger).get(url).status_code == 404
    assert world.client(world.customer.reader).get(url).status_code == 200


def test_a_provider_sets_up_payouts(shop, world: World):
    browser = world.client(world.supplier.owner)
    assert "Set up payouts at Stripe" in browser.get(reverse("provider:payouts")).content.decode()

    answer = browser.post(reverse("provider:payouts-onboard"))
    back = shop.post_page(answer["location"], "complete").removeprefix("http://testserver")
    seen = browser.get(back, follow=True)

    world.provider.refresh_from_db()
    assert back == reverse("provider:payouts-return")
    assert (world.provider.is_identified, world.provider.payout_account.state) == (True, "active")
    assert "Active" in seen.content.decode()


def test_a_member_cannot_open_the_form(shop, world: World):
    answer = world.client(world.supplier.member).post(reverse("provider:payouts-onboard"))

    assert answer.status_code == 403
    assert shop.double.store.all("v2.core.account") == []


def test_a_used_link_is_renewed_behind_the_login(shop, world: World):
    browser = world.client(world.supplier.owner)
    first = browser.post(reverse("provider:payouts-onboard"))["location"]
    shop.post_page(first, "leave")

    again = browser.get(reverse("provider:payouts-renew"))["location"]

    assert again.startswith(shop.double.url)
    assert again != first


def test_a_provider_sees_why_nothing_is_paid(shop, world: World):
    earn(world.provider, minor=50, now=clock.now())

    page = world.client(world.supplier.owner).get(reverse("provider:payouts")).content.decode()

    assert "Not paid in the next run." in page
    assert "below the smallest payout" in page
    assert "$1.00" in page


def test_an_operator_runs_payouts(shop, world: World):
    shop.onboard(world.provider, action="complete", now=clock.now())
    earn(world.provider, minor=2550, now=clock.now())
    shop.fund(10_000)
    operator = world.client(world.operator)
    assert "$25.50" in operator.get(reverse("operators:payouts")).content.decode()

    drafted = operator.post(reverse("operators:payouts-draft"), follow=True)
    payout = Payout.objects.get()
    assert payout.public_id in drafted.content.decode()
    detail = reverse("operators:payout", args=[payout.public_id])
    assert "Approve" in operator.get(detail).content.decode()
    operator.post(reverse("operators:payout-act", args=[payout.public_id]), {"action": "approve"})
    sent = operator.post(reverse("operators:payouts-send"), follow=True)

    payout.refresh_from_db()
    assert payout.state == "transferred"
    assert "1 sent" in sent.content.decode()
    supplier = world.client(world.supplier.owner).get(reverse("provider:payouts")).content.decode()
    assert payout.stripe_transfer in supplier


def test_a_skipped_provider_is_named_with_the_reason(shop, world: World):
    earn(world.provider, minor=2550, now=clock.now())

    page = world.client(world.operator).post(reverse("operators:payouts-draft"), follow=True).content.decode()

    assert "Nobody could be paid." in page
    assert "has not connected a Stripe account" in page


@pytest.mark.parametrize(
    ("action", "reason", "status", "state"),
    [
        ("hold", "a question", 302, "held"),
        ("cancel", "wrong month", 302, "canceled"),
        ("cancel", "", 400, "reserved"),
        ("retry", "", 409, "reserved"),
        ("steal", "", 400, "reserved"),
    ],
)
def test_what_an_operator_may_do_with_one_payout(shop, world: World, action, reason, status, state):
    shop.onboard(world.provider, action="complete", now=clock.now())
    earn(world.provider, minor=2550, now=clock.now())
    operator = world.client(world.operator)
    operator.post(reverse("operators:payouts-draft"))
    payout = Payout.objects.get()

    answer = operator.post(
        reverse("operators:payout-act", args=[payout.public_id]), {"action": action, "reason": reason}
    )

    payout.refresh_from_db()
    assert (answer.status_code, payout.state) == (status, state)


def test_a_payout_in_doubt_shows_what_stripe_has(shop, world: World):
    shop.onboard(world.provider, action="complete", now=clock.now())
    earn(world.provider, minor=2550, now=clock.now())
    shop.fund(10_000)
    operator = world.client(world.operator)
    operator.post(reverse("operators:payouts-draft"))
    payout = Payout.objects.get()
    act = reverse("operators:payout-act", args=[payout.public_id])
    operator.post(act, {"action": "approve"})
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="after", count=3)
    operator.post(reverse("operators:payouts-send"))

    page = operator.get(reverse("operators:payout", args=[payout.public_id])).content.decode()
    assert shop.transfers(payout)[0]["id"] in page
    operator.post(act, {"action": "reconcile"})

    payout.refresh_from_db()
    assert payout.state == "transferred"
