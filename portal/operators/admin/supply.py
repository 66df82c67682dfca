"""Providers and their agreements."""

from portal.operators.admin.look_up import show
from portal.providers.models import Agreement, AgreementAcceptance, Provider

show(
    Provider,
    "legal_name", "public_id", "kind", "state", "country", "is_identified", "created_at",
    search=("public_id", "legal_name"),
    filters=("kind", "state"),
)  # fmt: skip
show(Agreement, "version", "effective_from", "sha256")
show(AgreementAcceptance, "provider", "agreement", "accepted_by", "accepted_at")
