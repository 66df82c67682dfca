"""The control API as its users meet it: what it has, what is armed, and an answer to every mistake."""

import sys
from collections.abc import Iterator

import httpx
import pytest

from portal.sandbox.stripe_double.__main__ import main
from portal.sandbox.stripe_double.control_words import FIELDS
from portal.sandbox.stripe_double.server import StripeDouble
from tests.factories.payouts import running_double


@pytest.fixture
def double() -> Iterator[StripeDouble]:
    """A running stand-in."""
    with running_double() as running:
        yield running


def ask(double, name="", /, **fields) -> httpx.Response:
    """Post a form, as curl would."""
    return httpx.post(f"{double.url}/_double/{name}", data=fields, trust_env=False)


def test_it_lists_what_it_can_and_can_what_it_lists(double):
    listed = httpx.get(f"{double.url}/_double/", trust_env=False).json()["controls"]

    assert listed == {name: list(fields) for name, fields in FIELDS.items()}
    known = double._control
    assert set(listed) == {*known._calls, *known._waiting}


@pytest.mark.parametrize(
    ("name", "fields", "status", "told"),
    [
        ("fial", {}, 404, "No such control: fial. Known: account,"),
        ("fail", {"kind": "500", "times": "2"}, 400, "fail has no field times; it takes kind, when,"),
        ("fail", {"kind": "500", "name": "x"}, 400, "fail has no field name"),
        ("fail", {"kind": "503"}, 400, "kind must be one of 409, 429, 500, hold, reset, timeout"),
        ("fail", {"kind": "500", "method": "post"}, 400, "method must be one of GET, POST"),
        ("fail", {"kind": "500", "path": "transfers"}, 400, "path must begin with /v1/ or /v2/"),
        ("clock/advance", {"seconds": "a day"}, 400, "seconds must be a whole number"),
        ("platform", {"fee_bps": "2.9 %"}, 400, "fee_bps must be a whole number"),
        ("state", {"now": "1"}, 400, "it takes no fields"),
    ],
)
def test_a_mistake_is_told_and_arms_nothing(double, name, fields, status, told):
    answer = ask(double, name, **fields)

    assert (answer.status_code, told in answer.json()["error"]["message"]) == (status, True)
    assert ask(double, "state").json()["armed"] == []


def test_what_is_armed_is_shown_until_a_call_meets_it(double):
    ask(double, "fail", kind="500", when="after", path="/v1/balance", method="GET")
    assert ask(double, "state").json()["armed"] == [
        {"method": "GET", "path": "/v1/balance", "kind": "500", "when": "after", "count": 1}
    ]

    headers = {"authorization": "Bearer sk_test_x"}
    met = httpx.get(f"{double.url}/v1/balance", headers=headers, trust_env=False)

    assert (met.status_code, ask(double, "state").json()["armed"]) == (500, [])


def test_the_platforms_switches_take_yes_and_no(double):
    told = []
    for wanted in (True, False):
        httpx.post(f"{double.url}/_double/platform", json={"charges_stopped": wanted}, trust_env=False)
        told.append(
            httpx.get(
                f"{double.url}/v1/account", headers={"authorization": "Bearer sk_test_x"}, trust_env=False
            ).json()["charges_enabled"]
        )

    assert told == [False, True]


def test_a_process_that_cannot_start_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stripe_double", "--db", str(tmp_path / "none" / "x.sqlite")])

    assert main() == 2
    told = "the stand-in cannot start: unable to open database file; look at --port, --db and --spec\n"
    assert capsys.readouterr() == ("", told)


def test_help_tells_each_control_and_its_fields(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["stripe_double", "--help"])

    with pytest.raises(SystemExit):
        main()

    told = " ".join(capsys.readouterr().out.split())
    for name, fields in FIELDS.items():
        assert f"{name} {', '.join(fields)}" in told
