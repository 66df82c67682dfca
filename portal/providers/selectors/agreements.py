"""Which agreement is in force and who has accepted it."""

from datetime import datetime

from django.db.models import Exists, OuterRef

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
    accepted = AgreementAcceptance.objects.filter(provider=provider, agreement=OuterRef("pk"))
    in_force = Agreement.objects.filter(effective_from__lte=now).order_by("-effective_from", "-id")
    found = in_force.annotate(is_accepted=Exists(accepted)).values_list("is_accepted", flat=True).first()
    return found is None or found
