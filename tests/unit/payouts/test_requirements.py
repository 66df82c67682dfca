"""What Stripe asks for in plain words, and how long there is."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.payouts.errors import SecondFactorNeeded
from portal.payouts.rules import protection, requirements

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("identity.individual.documents.primary_verification", "a photo of an identity document"),
        ("identity.individual", "who you are: name, date of birth and address"),
        ("individual.dob.day", "the date of birth"),
        ("individual.verification.document", "a photo of an identity document"),
        ("defaults.payout_methods", "the bank account that is paid"),
        ("external_account", "the bank account that is paid"),
        ("tos_acceptance.date", "your consent to Stripe's terms"),
        ("person_1Abc.first_name", "the people behind the company"),
        ("something.new", "what Stripe calls “something.new”"),
    ],
)
def test_words(name, words):
    assert requirements.in_words(name) == words


def test_only_what_waits_for_the_provider_is_asked_once_overdue_first():
    entries = [
        {"description": "external_account", "awaiting": "user", "deadline_status": "currently_due"},
        {"description": "individual.dob.day", "awaiting": "user", "deadline_status": "currently_due"},
        {"description": "individual.dob.month", "awaiting": "user", "deadline_status": "past_due"},
        {"description": "individual.email", "awaiting": "stripe", "deadline_status": "past_due"},
    ]

    found = requirements.asks(entries)

    assert [(ask.words, ask.is_overdue) for ask in found] == [
        ("the date of birth", True),
        ("the bank account that is paid", False),
    ]


@pytest.mark.parametrize(
    ("left", "reminder"),
    [
        (timedelta(days=15), None),
        (timedelta(days=14), 14),
        (timedelta(days=7), 7),
        (timedelta(days=2), 3),
        (timedelta(hours=1), 1),
        (timedelta(days=-1), 1),
    ],
)
def test_reminders(left, reminder):
    assert requirements.reminder(NOW + left, now=NOW) == reminder


def test_without_a_date_there_is_no_reminder():
    assert (requirements.reminder(None, now=NOW), requirements.days_left(None, now=NOW)) == (None, None)


@pytest.mark.parametrize("age", [timedelta(), timedelta(minutes=10)])
def test_a_fresh_second_factor_is_enough(age):
    protection.require_recent(NOW - age, now=NOW)


@pytest.mark.parametrize("at", [None, NOW - timedelta(minutes=10, seconds=1), NOW + timedelta(seconds=1)])
def test_an_old_or_no_second_factor_is_not(at):
    with pytest.raises(SecondFactorNeeded):
        protection.require_recent(at, now=NOW)
