"""What stands in the way of a run's approval, and in which order findings are read."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.payouts.rules import findings as rules
from portal.payouts.rules.approval import run_hash
from portal.payouts.rules.findings import Finding

NOW = datetime(2026, 11, 2, tzinfo=UTC)
CLEAN = [Finding("ledger", "ok", "no differences")]


@pytest.mark.parametrize(
    ("findings", "checked", "age", "said"),
    [
        (CLEAN, "a", timedelta(0), ""),
        (CLEAN, "a", timedelta(hours=24), ""),
        (CLEAN, "a", timedelta(hours=24, seconds=1), "older than a day"),
        (CLEAN, "b", timedelta(0), "has changed"),
        ([*CLEAN, Finding("cover", "fail", "")], "a", timedelta(0), "the check found: cover"),
        ([*CLEAN, Finding("currency", "warn", "")], "a", timedelta(0), ""),
    ],
)
def test_an_objection(findings, checked, age, said):
    found = rules.objection(findings=findings, checked_hash=checked, current_hash="a", checked_at=NOW - age, now=NOW)

    assert said in found
    assert bool(found) == bool(said)


def test_no_check_is_an_objection():
    assert "not checked" in rules.objection(findings=[], checked_hash="", current_hash="a", checked_at=None, now=NOW)


def test_findings_survive_their_storage_and_the_worst_comes_first():
    stored = rules.to_json([*CLEAN, Finding("cover", "fail", "too little", "top up"), Finding("a", "warn", "")])

    assert [one.id for one in rules.from_json(stored)] == ["cover", "a", "ledger"]
    assert rules.from_json(stored)[0] == Finding("cover", "fail", "too little", "top up")


@pytest.mark.parametrize(("available", "status"), [(None, "fail"), (99, "fail"), (100, "ok")])
def test_cover(available, status):
    assert rules.cover_finding(needed_minor=100, available_minor=available).status == status


def test_a_runs_hash_is_over_all_its_payouts_in_any_order():
    assert run_hash(run="r", payouts=["a", "b"]) == run_hash(run="r", payouts=["b", "a"])
    assert len({run_hash(run="r", payouts=p) for p in (["a"], ["a", "b"], ["a", "c"])}) == 3
    assert run_hash(run="r", payouts=["a"]) != run_hash(run="s", payouts=["a"])
