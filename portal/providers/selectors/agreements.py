"""Which agreement is in force and who has accepted it."""

from datetime import datetime

from django.db import connection

from portal.providers.models import Agreement, AgreementAcceptance, Provider

# Asked at every heartbeat, and therefore written out: building it anew would cost four times as much as asking.
_IS_ACCEPTED = """
SELECT EXISTS (SELECT 1 FROM providers_agreementacceptance
                WHERE agreement_id = agreement.id AND provider_id = %(provider)s)
  FROM providers_agreement AS agreement
 WHERE effective_from <= %(now)s
 ORDER BY effective_from DESC, id DESC
 LIMIT 1
"""


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
    with connection.cursor() as cursor:
        cursor.execute(_IS_ACCEPTED, {"provider": provider.pk, "now": now})
        found = cursor.fetchone()
    return found is None or bool(found[0])
