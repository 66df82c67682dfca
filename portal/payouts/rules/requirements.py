"""What Stripe asks for, in plain words, and how long there is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

# Longest names first, so that a document is not called a person.
_WORDS = (
    ("identity.individual.documents", "a photo of an identity document"),
    ("individual.verification.additional_document", "a proof of address"),
    ("individual.verification.document", "a photo of an identity document"),
    ("identity.individual.additional_addresses", "the address of the person"),
    ("identity.individual.address", "the address of the person"),
    ("individual.address", "the address of the person"),
    ("identity.individual.date_of_birth", "the date of birth"),
    ("individual.dob", "the date of birth"),
    ("identity.individual.id_numbers", "the tax or identity number of the person"),
    ("individual.id_number", "the tax or identity number of the person"),
    ("individual.ssn_last_4", "the last four digits of the social security number"),
    ("identity.individual.names", "the full name"),
    ("identity.individual.given_name", "the full name"),
    ("identity.individual.surname", "the full name"),
    ("individual.first_name", "the full name"),
    ("individual.last_name", "the full name"),
    ("identity.individual.email", "an e-mail address"),
    ("individual.email", "an e-mail address"),
    ("identity.individual.phone", "a telephone number"),
    ("individual.phone", "a telephone number"),
    ("identity.individual", "who you are: name, date of birth and address"),
    ("individual", "who you are: name, date of birth and address"),
    ("identity.business_details.documents", "a document of the company"),
    ("company.verification.document", "a document of the company"),
    ("identity.business_details.id_numbers", "the company's tax or register number"),
    ("company.tax_id", "the company's tax number"),
    ("identity.business_details", "the details of the company"),
    ("company", "the details of the company"),
    ("identity.entity_type", "whether you are a person or a company"),
    ("business_type", "whether you are a person or a company"),
    ("identity.attestations.terms_of_service", "your consent to Stripe's terms"),
    ("tos_acceptance", "your consent to Stripe's terms"),
    ("identity.attestations", "a confirmation of what you said"),
    ("identity.persons", "the people behind the company"),
    ("relationship", "the people behind the company"),
    ("person", "the people behind the company"),
    ("representative", "the person who represents the company"),
    ("owners", "the owners of the company"),
    ("identity.country", "the country"),
    ("defaults.payout_methods", "the bank account that is paid"),
    ("configuration.recipient.default_outbound_destination", "the bank account that is paid"),
    ("default_outbound_destination", "the bank account that is paid"),
    ("external_account", "the bank account that is paid"),
    ("business_profile", "what the business does"),
    ("defaults.profile", "what the business does"),
    ("contact_email", "an e-mail address"),
)
# Owners are written to when something changes and as a deadline comes near.
REMINDED = (timedelta(days=14), timedelta(days=7), timedelta(days=3), timedelta(days=1))


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that Stripe wants from the provider: in words, by Stripe's own name, and whether it is overdue."""

    words: str
    name: str
    is_overdue: bool


def in_words(name: str) -> str:
    """Return what a requirement means; one without an entry is named as Stripe names it."""
    for start, words in _WORDS:
        if name == start or name.startswith((f"{start}.", f"{start}_")):
            return words
    return f"what Stripe calls “{name}”"


def asks(entries: Iterable[Mapping[str, str]]) -> list[Ask]:
    """Return what waits for the provider, what is overdue first; the same words once."""
    found: dict[str, Ask] = {}
    for entry in entries:
        if entry.get("awaiting") != "user":
            continue
        ask = Ask(in_words(entry["description"]), entry["description"], entry.get("deadline_status") == "past_due")
        if ask.words not in found or ask.is_overdue:
            found[ask.words] = ask
    return sorted(found.values(), key=lambda ask: not ask.is_overdue)


def days_left(due_at: datetime | None, *, now: datetime) -> int | None:
    """Return the whole days that are left, negative once it is over; None where there is no date."""
    return (due_at - now).days if due_at else None


def reminder(due_at: datetime | None, *, now: datetime) -> int | None:
    """Return the nearest reminder in days whose moment has come; None before the first one and without a date."""
    passed = [ahead.days for ahead in REMINDED if due_at is not None and due_at - ahead <= now]
    return min(passed) if passed else None
