"""What a customer or a provider downloads is enough to compute a statement and a payout again, without any database."""

import json
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path

import jsonschema
import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from poolhouse_common import amounts, recount

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerAccount
from portal.billing.selectors import price_exports
from portal.billing.services import grants, ledger, maturity, posting, prices
from portal.core import clock
from portal.payouts.models import Payout
from tests.factories.billing import TERMS, Market, ServingNodeFactory
from tests.factories.payouts import PayoutFactory
from tests.factories.receipts import serve

pytestmark = pytest.mark.django_db
OPTIONS = {"usage.csv": "--usage", "prices.json": "--prices", "statement.json": "--statement"}
SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/recompute.json").read_text(encoding="utf-8"))


@pytest.fixture
def used(world, settings):
    """One customer has used two models on two nodes of one provider; some of it was free, some cut by its hold."""
    settings.PAYOUT_HOLD_DAYS = 0
    now = clock.now()
    world.provider.is_identified = True
    world.provider.save()
    markets = [
        Market(customer=world.customer.organization, node=ServingNodeFactory(provider=world.provider)) for _ in range(2)
    ]
    for market in markets:
        serve(market, at=now)
        serve(market, at=now, prompt=777, cached=333, completion=1)
        serve(market, at=now, charge_nano=1_234, hold_nano=1_234)
        serve(market, at=now, prompt=0, completion=0, charge_nano=0, outcome="node_fault", lease_charges=[0])
    posting.post_all(now=now)
    grants.grant_promo(
        organization=world.customer.organization, amount_nano=10**9, key="thanks", actor=SYSTEM_ACTOR, now=now
    )
    return now


def files(world, side: str, folder: Path) -> dict[str, Path]:
    """Download what this side's pages offer."""
    client = world.client(world.customer.owner if side == "customer" else world.supplier.owner)
    got, days = {}, {"first": (clock.now() - timedelta(days=3)).date().isoformat()}
    for name, route in (("usage.csv", "requests-csv"), ("usage.json", "requests-json")):
        got[name] = folder / name
        got[name].write_bytes(b"".join(client.get(reverse(f"{side}:{route}"), days).streaming_content))
    for name in ("prices.json", "statement.json"):
        answer = client.get(reverse(f"{side}:{name.replace('.', '-')}"))
        got[name] = folder / name
        got[name].write_bytes(answer.content)
    return got


def recomputed(*arguments: object) -> list[dict[str, object]]:
    """Run the command where there is no database, no network and no Django."""
    command = [sys.executable, "-I", "-m", "poolhouse_common.recount", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={})
    assert done.returncode in {0, 1}, done.stderr
    said = json.loads(done.stdout)
    jsonschema.validate(said, SCHEMA)
    assert (done.returncode == 0) is all(one["is_right"] for one in said)
    return said


@pytest.mark.parametrize("side", ["customer", "provider"])
def test_a_statement_is_rebuilt_from_its_files_to_the_nano(world, used, tmp_path, side):
    got = files(world, side, tmp_path)
    told = json.loads(got["statement.json"].read_text())

    for kind in ("usage.csv", "usage.json"):
        (said,) = recomputed("--usage", got[kind], "--prices", got["prices.json"], "--statement", got["statement.json"])
        assert (said["problems"], said["rows"], said["outside"]) == ([], 6, 2)
        assert said["computed"]["usage"] == told["totals"]["usage"] != "0"
        assert said["computed"]["closing"] == told["closing"]


def test_each_nano_that_is_off_is_found(world, used, tmp_path):
    got = files(world, "customer", tmp_path)
    told = json.loads(got["statement.json"].read_text())
    line = told["usage"][0]
    line["amount"] = amounts.text(amounts.nano(line["amount"]) + 1)
    got["statement.json"].write_text(json.dumps(told))
    prices = json.loads(got["prices.json"].read_text())
    prices["prices"][0]["completion_per_mtok"] = "0.800000001"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(prices))

    (said,) = recomputed(
        "--usage", got["usage.csv"], "--prices", got["prices.json"], "--statement", got["statement.json"]
    )
    assert [problem.partition(":")[0] for problem in said["problems"]] == [line["model"]]
    (twice,) = recomputed(
        "--usage",
        got["usage.csv"],
        "--usage",
        got["usage.json"],
        "--prices",
        other,
        "--statement",
        got["statement.json"],
    )
    assert sum("is there twice" in problem for problem in twice["problems"]) == 8
    head, *lines = got["usage.csv"].read_text().splitlines()
    row = next(line for line in lines if line.endswith(",0.0006"))
    free = tmp_path / "free.csv"
    free.write_text(f"{head}\n{row.removesuffix('0.0006')}0\n")
    (rows,) = recomputed("--usage", free, "--prices", got["prices.json"])
    assert [problem.partition(": ")[2] for problem in rows["problems"]] == ["costs 0, comes to 0.0006"]
    (rows,) = recomputed("--usage", got["usage.csv"], "--prices", other)
    assert rows["problems"] == []  # half a nano is rounded away


def test_a_payout_is_rebuilt_from_usage_and_prices(world, used, tmp_path):
    assert maturity.mature(now=used + timedelta(days=400)) == 1
    payout: Payout = PayoutFactory(provider=world.provider, amount_minor=1)
    got = files(world, "provider", tmp_path)
    answer = world.client(world.supplier.owner).get(reverse("provider:payout-json", args=[payout.public_id]))
    file = tmp_path / "payout.json"
    file.write_bytes(answer.content)
    (said,) = recomputed("--usage", got["usage.csv"], "--prices", got["prices.json"], "--payout", file)

    assert (said["problems"], said["rows"]) == ([], 6)
    assert said["computed"]["paid"] == "0.01"
    assert amounts.nano(said["computed"]["earned"]) > 10**6
    told = json.loads(file.read_text())
    available = LedgerAccount.objects.get(code=f"provider_available:{world.provider.public_id}")
    assert amounts.nano(told["closing"]) + 10**7 == ledger.balance(available)


def test_a_private_price_is_in_the_file_however_long_ago_it_was_used(world):
    now = clock.now()
    customer = world.customer.organization
    market = Market(customer=customer, node=ServingNodeFactory(provider=world.provider))
    private = prices.set_price(model=market.model, terms=TERMS, provider=world.provider, actor=SYSTEM_ACTOR, now=now)
    serve(market, at=now, price_version_id=private.pk)
    asked = {"currency": "usd", "now": now + timedelta(days=300)}

    def known(organization_id: int) -> set[int]:
        found = price_exports.for_customer(organization_id=organization_id, **asked)
        return {row["price"] for row in found["prices"]}

    assert private.pk not in known(customer.pk)
    posting.post_all(now=now)
    assert private.pk in known(customer.pk)
    assert private.pk not in known(customer.pk + 1)


def test_the_command_asks_no_database_and_says_the_same(world, used, tmp_path, capsys, django_assert_num_queries):
    got, told = files(world, "customer", tmp_path), StringIO()
    given = [
        part for name in ("usage.csv", "prices.json", "statement.json") for part in (OPTIONS[name], str(got[name]))
    ]

    with django_assert_num_queries(0):
        call_command("recompute", "files", *given, stdout=told)

    assert told.getvalue().endswith("equal to the nano\n")
    assert recount.main(given) == 0
    assert capsys.readouterr().out == told.getvalue()


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "prices.json").write_text("{}")

    with pytest.raises(CommandError, match="is not a poolhouse-prices document"):
        call_command(
            "recompute", "files", "--usage", str(tmp_path / "x.csv"), "--prices", str(tmp_path / "prices.json")
        )
