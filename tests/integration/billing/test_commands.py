"""`ledger_check` and `recompute` tell the truth by their exit status."""

import json

import pytest
from django.core.management import CommandError, call_command

from portal.billing.models import LedgerCheck
from portal.billing.services import posting, statements
from tests.factories.billing import DELIVERED, Market
from tests.integration.billing.test_differences import tamper
from tests.integration.billing.test_statements import AFTER

pytestmark = pytest.mark.django_db


@pytest.fixture
def market():
    made = Market()
    made.record = made.serve(cached=100)
    posting.post_usage(now=DELIVERED)
    return made


def test_a_sound_ledger_passes(market, capsys):
    call_command("ledger_check")
    assert capsys.readouterr().out.splitlines()[0] == "no differences"

    call_command("ledger_check", "--json", "--without-stripe")
    assert json.loads(capsys.readouterr().out) == {"differences": [], "count": 0, "stripe": "not asked"}
    assert list(LedgerCheck.objects.order_by("pk").values_list("difference_count", flat=True)) == [0, 0]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_difference_fails(market, capsys, arguments):
    tamper("UPDATE billing_spendday SET charge_nano = charge_nano - 1")

    with pytest.raises(CommandError) as refusal:
        call_command("ledger_check", *arguments)

    assert refusal.value.returncode == 1
    assert "spend_day_differs" in capsys.readouterr().out


def test_a_charge_is_computed_again(market, capsys):
    call_command("recompute", "request", str(market.record.request_id))

    out = capsys.readouterr().out
    assert "900 prompt tokens at 0.2" in out
    assert "100 cached prompt tokens at 0.05" in out
    assert "charge 0.000585, recorded 0.000585, booked 0.000585" in out
    assert "share 0.000468, recorded 0.000468" in out


def test_a_wrong_charge_is_noticed(market, capsys):
    tamper("UPDATE metering_usagerecord SET completion_tokens = completion_tokens - 1, hold_nano = 10000000")

    with pytest.raises(CommandError, match="differs"):
        call_command("recompute", "request", str(market.record.request_id))
    assert "DIFFERS" in capsys.readouterr().out


def test_what_was_not_posted_yet_is_said_so(market, capsys):
    record = market.serve()

    with pytest.raises(CommandError, match="differs"):
        call_command("recompute", "request", str(record.request_id))

    assert "booked not yet" in capsys.readouterr().out


def test_what_was_withheld_is_said_so(market, capsys):
    from tests.factories.billing import house_market

    own = house_market(model=market.model)
    record = own.serve()
    posting.post_usage(now=DELIVERED)

    call_command("recompute", "request", str(record.request_id))

    assert "withheld: house" in capsys.readouterr().out


def test_a_free_attempt_is_right_and_tokens_without_a_charge_are_not(market):
    free = market.serve(prompt=0, completion=0, charge_nano=0)
    wrong = market.serve(prompt=10, completion=0, charge_nano=0)
    posting.post_usage(now=DELIVERED)

    call_command("recompute", "request", str(free.request_id))
    with pytest.raises(CommandError, match="differs"):
        call_command("recompute", "request", str(wrong.request_id))


def test_a_statement_is_computed_again(market, capsys):
    statements.freeze_month(now=AFTER)
    call_command("recompute", "statement", "C-2026-11-0001")
    assert capsys.readouterr().out.count("C-2026-11-0001") == 2

    tamper("UPDATE metering_usagerecord SET prompt_tokens = prompt_tokens + 1")
    with pytest.raises(CommandError, match="differs"):
        call_command("recompute", "statement", "C-2026-11-0001")


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        ("request", "nonsense", "not a request id"),
        ("request", "019e5d2c-7d1e-7a31-9c1f-3d1c7a1b2c3d", "no usage"),
        ("statement", "C-1999-01-0001", "no statement"),
    ],
)
def test_what_is_unknown_is_said_so(what, name, message):
    with pytest.raises(CommandError, match=message):
        call_command("recompute", what, name)


def test_a_vanished_price_is_said_so(market):
    tamper("DELETE FROM billing_priceversion")

    with pytest.raises(CommandError, match="price version"):
        call_command("recompute", "request", str(market.record.request_id))


@pytest.mark.parametrize("command", ["ledger_check", "recompute"])
def test_the_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit):
        call_command(command, "--help")

    assert "manage.py " + command in capsys.readouterr().out
