"""The whole path, in a browser, over real processes: a provider onboards, its node serves, a customer pays and asks.

Nothing is prepared but an operator and a priced model: everything else is done on the pages, by their words. In the end
both compute again what they were told, from files that they downloaded and receipts that the node kept.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from poolhouse_agent import cli
from poolhouse_common import recount

from portal.sandbox import demo_nodes, demo_offers, demo_requests, processes, waiting
from portal.sandbox.ground import Ground
from portal.sandbox.supervisor import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

PASSWORD = "a long enough secret"
OPERATOR = "operator@pool.example"
SETTINGS = {
    "PAYOUT_HOLD_DAYS": "0",
    "CUSTOMER_NEW_HOLD_DAYS": "0",
    "PAYOUT_RESERVE_DAYS": "0",
    "PAYOUT_MINIMUM_MINOR": "1",
    "CURRENCY": "usd",
    "PLATFORM_FEE_BPS": "2000",
}
PROMPT = "Explain in three sentences why a pool of GPUs needs honest meters."
NODE = "rack-1"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """A pool of its own: database, broker, Stripe's stand-in, portal, two gateways, worker, beat."""
    ground = Ground(tmp_path / "pool")
    ground.claim()
    pool = Stack(ground, port=processes.free_port(), settings=SETTINGS)
    try:
        pool.start()
        yield pool
    finally:
        pool.stop()
        ground.release()


@dataclass
class Person:
    """Someone at a browser, who reads labels and presses buttons."""

    page: Page
    complaints: list[str]

    def go(self, path: str) -> "Person":
        self.page.goto(path)
        return self

    def fill(self, **fields: str) -> "Person":
        for label, value in fields.items():
            self.page.get_by_label(label.replace("_", " "), exact=False).first.fill(value)
        return self

    def tick(self, *labels: str) -> "Person":
        for label in labels:
            self.page.get_by_label(re.compile(label)).check()
        return self

    def choose(self, label: str, value: str) -> "Person":
        self.page.get_by_label(label).select_option(value)
        return self

    def press(self, name: str) -> "Person":
        self.page.get_by_role("button", name=name).first.click()
        return self

    def follow(self, name: str) -> "Person":
        self.page.get_by_role("main").get_by_role("link", name=name).first.click()
        return self

    def downloads(self, name: str, folder: Path) -> Path:
        with self.page.expect_download() as coming:
            self.page.get_by_role("main").get_by_role("link", name=name, exact=True).click()
        file = folder / coming.value.suggested_filename
        coming.value.save_as(file)
        return file

    def sees(self, text: str) -> "Person":
        expect(self.page.get_by_role("main")).to_contain_text(text)
        return self

    def waits_to_see(self, path: str, text: str, *, timeout_s: float = 60) -> "Person":
        def is_there() -> bool:
            self.page.goto(path)
            return text in self.page.get_by_role("main").inner_text()

        waiting.until(f"{path} shows {text!r}", is_there, timeout_s=timeout_s)
        return self


Arrive = Callable[[], Person]


@pytest.fixture
def arrive(chromium: Browser, stack: Stack) -> Iterator[Arrive]:
    """Let a new person open a browser."""
    contexts = []

    def new() -> Person:
        context = chromium.new_context(base_url=stack.public_url, viewport={"width": 1360, "height": 900})
        contexts.append(context)
        person = Person(page=context.new_page(), complaints=[])
        person.page.on("console", lambda message: note(person, message))
        return person

    def note(person: Person, message: ConsoleMessage) -> None:
        """Keep what our own pages complain of; Stripe's pages are not ours, and [DOM] marks Chromium's form hints."""
        if message.location["url"].startswith(stack.public_url) and "[DOM]" not in message.text:
            person.complaints.append(message.text)

    yield new
    for context in contexts:
        context.close()


def test_from_two_strangers_to_a_paid_request(stack: Stack, arrive: Arrive, tmp_path: Path):
    operator = given_an_operator(stack, arrive)
    provider = when_a_provider_onboards(stack, arrive)
    provider_id = when_the_operator_approves(operator)
    given_a_priced_model(stack, provider_id)
    when_its_node_comes_online(stack, provider)
    customer = arrive()
    key = when_a_customer_tops_up(stack, customer)

    answer = when_the_customer_asks(stack, key)

    cost = Decimal(answer.usage["cost"])
    earned = cost * 8 / 10
    assert answer.text.strip()
    assert cost > 0
    customer.waits_to_see("/customer/usage/", written(cost))
    customer.waits_to_see("/customer/", cents(cost)).sees(cents(100 - cost))
    provider.waits_to_see("/provider/earnings/", written(earned))
    provider.go("/provider/").sees(cents(earned)).sees("1 of 1")
    assert os.getpriority(os.PRIO_PROCESS, stack.children["worker"].pid or 0) == 5  # requests go first
    operator.go("/operator/").sees(cents(cost)).sees(cents(earned)).sees("1 of 1")
    statement = then_the_customer_computes_the_statement_again(customer, tmp_path)
    when_it_is_paid_out(stack, customer=statement["party"], provider=provider_id)
    then_the_provider_proves_its_payout(stack, provider, tmp_path)
    for person in (operator, provider, customer):
        assert person.complaints == []


def given_an_operator(stack: Stack, arrive: Arrive) -> Person:
    stack.run(["manage.py", "create_operator", "--email", OPERATOR], stdin=PASSWORD, timeout_s=60)
    person = arrive()
    person.go("/accounts/login/").fill(Email=OPERATOR, Password=PASSWORD).press("Sign in")
    return person.sees("The pool as a whole.")


def sign_up(person: Person, *, name: str, email: str) -> Person:
    person.go("/").follow("Create an account")
    return person.fill(Your_name=name, Email=email, Password=PASSWORD).press("Create account")


def when_a_provider_onboards(stack: Stack, arrive: Arrive) -> Person:
    person = arrive()
    sign_up(person, name="Ada Provider", email="ada@gpus.example")
    person.fill(Name="Ada GPUs").choose("Country", "DE").tick("^Provider")
    person.page.get_by_label(re.compile("^Customer")).uncheck()
    person.press("Create organization")
    person.fill(Legal_name="Ada GPUs GmbH").press("Save")
    person.go("/provider/profile/submit/").press("Submit").sees("Submitted")
    person.go("/provider/payouts/").press("Set up payouts at Stripe")
    person.page.get_by_role("button", name="Give all details", exact=True).click()
    person.page.wait_for_url(f"{stack.public_url}/**")
    return person.waits_to_see("/provider/payouts/", "Active")


def when_the_operator_approves(operator: Person) -> str:
    """Return the provider's public id."""
    operator.go("/operator/providers/").follow("Ada GPUs GmbH")
    operator.choose("Kind", "contracted").press("Save").sees("Kind and rights are set.")
    operator.follow("Approve").press("Approve").sees("Approved")
    found = re.search(r"prov_[0-9a-z]+", operator.page.url)
    assert found is not None
    return found.group()


def given_a_priced_model(stack: Stack, provider: str) -> None:
    given = {
        "offers": [demo_offers.simulated().as_json()],
        "nodes": [],
        "is_house": False,
        "is_external": False,
        "provider": provider,
        "operator": OPERATOR,
    }
    stack.run(["-m", "portal.sandbox.demo_world", "offer"], stdin=json.dumps(given), timeout_s=120)


def when_its_node_comes_online(stack: Stack, provider: Person) -> None:
    provider.go("/provider/enrol/").press("Create token").sees("Run this on the machine")
    found = re.search(r"ph-enrol-[0-9A-Za-z_-]+", provider.page.get_by_role("main").inner_text())
    assert found is not None
    demo_nodes.join(stack, demo_nodes.plan("simulate", ""), NODE, token=found.group())
    demo_nodes.start(stack, NODE)
    provider.waits_to_see("/provider/nodes/", "Ready")
    provider.follow(NODE).follow("Deploy a model").choose("Engine", "simulate").press("Deploy")
    provider.waits_to_see("/provider/nodes/", "Serving")


def when_a_customer_tops_up(stack: Stack, person: Person) -> str:
    """Return the text of the key that the customer makes."""
    sign_up(person, name="Carl Customer", email="carl@apps.example")
    person.fill(Name="Carl Apps").choose("Country", "DE").press("Create organization").sees("No credit.")
    person.go("/customer/credit/").fill(Amount="100").press("Continue to payment")
    person.page.get_by_role("button", name="Pay with this card").click()
    person.page.wait_for_url(f"{stack.public_url}/**")
    person.waits_to_see("/customer/", "$100.00")
    person.go("/customer/keys/new/").fill(Name="first key").press("Create key").sees("first key is ready")
    found = re.search(r"sk-pool-k[0-9a-z]+-[0-9a-z]+-[0-9a-f]+", person.page.get_by_role("main").inner_text())
    assert found is not None
    return found.group()


def when_the_customer_asks(stack: Stack, key: str) -> demo_requests.Answer:
    call = {"gateway_url": stack.gateway_url, "key": key, "model": demo_offers.simulated().model}
    waiting.until("the model is served", lambda: demo_requests.is_ready(**call), timeout_s=60)
    return demo_requests.streamed(**call, prompt=PROMPT, max_tokens=60)


def then_the_customer_computes_the_statement_again(person: Person, folder: Path) -> dict[str, Any]:
    """Return the statement."""
    mine = folder / "customer"
    mine.mkdir()
    usage = person.go("/customer/usage/").downloads("Records as CSV", mine)
    prices = person.go("/customer/statement/").downloads("Prices", mine)
    statement = person.downloads("JSON", mine)
    assert recount.main(["--usage", str(usage), "--prices", str(prices), "--statement", str(statement)]) == 0
    told: dict[str, Any] = json.loads(statement.read_text(encoding="utf-8"))
    assert len(told["usage"]) == 1
    return told


def when_it_is_paid_out(stack: Stack, *, customer: str, provider: str) -> None:
    given = {
        "requests": 1,
        "customer": customer,
        "provider": provider,
        "operator": OPERATOR,
        "stripe_url": stack.stripe_url,
        "is_paid": True,
    }
    paid = json.loads(stack.run(["-m", "portal.sandbox.demo_settle"], stdin=json.dumps(given), timeout_s=100))
    assert (paid["payout_state"], paid["ledger_differences"]) == ("transferred", 0)


def then_the_provider_proves_its_payout(stack: Stack, person: Person, folder: Path) -> None:
    mine = folder / "provider"
    mine.mkdir()
    usage = person.go("/provider/requests/").downloads("CSV", mine)
    prices = person.go("/provider/statement/").downloads("Prices", mine)
    statement = person.downloads("JSON", mine)
    person.go("/provider/payouts/").follow("payout_").sees("Payout of")
    payout = person.downloads("What it is made of (JSON)", mine)
    files = ["--prices", str(prices), "--payout", str(payout)]
    assert recount.main(["--usage", str(usage), "--statement", str(statement), *files]) == 0

    state = stack.folder / "nodes" / NODE / "state"
    waiting.until("the node has its receipt", lambda: any(state.glob("receipts/receipts-*")), timeout_s=30)
    shown = stack.run(
        ["-m", "poolhouse_agent", "--state", str(state), "receipts", "show", "--all", "--json"], timeout_s=30
    )
    receipts = mine / "receipts.jsonl"
    receipts.write_text(shown, encoding="utf-8")
    assert json.loads(shown)["bill"]["proof"] == "equal"
    assert cli.main(["--state", str(state), "receipts", "verify", str(receipts), *files]) == 0


def cents(amount: Decimal) -> str:
    """Write an amount as overviews do."""
    return f"${amount.quantize(Decimal('0.01'), rounding='ROUND_HALF_UP'):,}"


def written(amount: Decimal) -> str:
    """Write an amount as tables do: up to six places, at least two."""
    digits = f"{amount:,.6f}".rstrip("0")
    whole, _, fraction = digits.partition(".")
    return f"${whole}.{fraction.ljust(2, '0')}"
