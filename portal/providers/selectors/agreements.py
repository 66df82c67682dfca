"""Which agreement is in force and who has accepted it."""

from datetime import datetime

from portal.providers.models import Agreement, AgreementAcceptance, Provider


def current_agreement(*, now: datetime) -> Agreement | None:
    """The version in force, None where none was ever published."""
    return Agreement.objects.filter(effective_from__lte=now).order_by("-effective_from", "-id").first()


def acceptance(*, provider: Provider, agreement: Agreement) -> AgreementAcceptance | None:
    """This provider's acceptance of the version."""
    return (
        AgreementAcceptance.objects.filter(provider=provider, agreement=agreement).select_related("accepted_by").first()
    )


def has_accepted(*, provider: Provider, now: datetime) -> bool:
    """Tell whether the provider has accepted the version in force; where none is published nothing is owed."""
    current = current_agreement(now=now)
    return current is None or acceptance(provider=provider, agreement=current) is not None
