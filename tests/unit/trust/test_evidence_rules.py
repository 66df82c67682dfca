"""Which rules weigh, and that each has words in the failure catalogue."""

from datetime import UTC, datetime

import pytest
from poolhouse_common import failures as catalogue
from poolhouse_common.failure_entries import answers

from portal.gateway import failures
from portal.trust.rules import evidence


def test_every_rule_has_a_cause_and_a_fix() -> None:
    rules = set(failures._RULES.values()) | evidence.HOSTILE

    assert {rule for rule in rules if catalogue.find(rule) is None} == set()


def test_the_catalogue_holds_no_rule_that_nothing_breaks() -> None:
    claims = {"usage_invalid", "usage_repeated", "usage_without_choices", "usage_above_bound"}
    tunnels = {"tunnel_protocol", "tunnel_window", "tunnel_flood", "tunnel_message_too_large"}

    assert {entry.code for entry in answers.ENTRIES} == set(failures._RULES.values()) | claims | tunnels


# What a customer's odd request can make an honest engine do must not weigh against its node.
@pytest.mark.parametrize(
    "rule", ["node_silent", "engine_error", "stream_without_text", "stream_truncated", "answer_too_slow"]
)
def test_honest_troubles_do_not_weigh(rule: str) -> None:
    assert rule not in evidence.HOSTILE


@pytest.mark.parametrize(("hours", "is_distrusted"), [(0, False), (2, False), (3, True), (24, True)])
def test_three_hours_of_misconduct_cost_trust(hours: int, is_distrusted: bool) -> None:
    assert evidence.is_distrusted(hostile_hours=hours) is is_distrusted


def test_an_hour_begins_at_its_full_hour() -> None:
    at = datetime(2026, 11, 2, 12, 59, 59, 999_999, tzinfo=UTC)

    assert evidence.hour_of(at) == datetime(2026, 11, 2, 12, tzinfo=UTC)
