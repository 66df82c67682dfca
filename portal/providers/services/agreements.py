"""The provider agreement: its versions, and who accepted which."""

import hashlib
from datetime import datetime

from django.db import IntegrityError, transaction

from portal.accounts.models import User
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue
from portal.providers import locks
from portal.providers.models import Agreement, AgreementAcceptance
from portal.providers.selectors import agreements


class AgreementExists(Conflict):
    """The version is published; a changed text needs a new version."""

    code = "agreement_exists"


class AgreementChanged(Conflict):
    """A newer version took effect while the page was open."""

    code = "agreement_changed"


def publish_agreement(*, version: str, text: str, effective_from: datetime, actor: Actor, now: datetime) -> Agreement:
    """Publish a version. From `effective_from` on nodes serve only where it was accepted. Raises AgreementExists."""
    if not version.strip() or not text.strip():
        raise InvalidValue("give a version and a text", param="version")
    agreement = Agreement(
        version=version.strip(),
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        effective_from=effective_from,
    )
    try:
        with transaction.atomic():
            agreement.save(force_insert=True)
            audit.record(actor=actor, event="agreement.published", subject=agreement.version, now=now)
    except IntegrityError as error:
        raise AgreementExists(f"version {version} is already published") from error
    return agreement


def accept_agreement(
    *, provider_id: str, version: str, accepted_by: User, actor: Actor, now: datetime
) -> AgreementAcceptance:
    """Accept the version in force; accepting it twice is the same acceptance. Raises AgreementChanged."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        require_active(provider.organization)
        current = agreements.current_agreement(now=now)
        if current is None or current.version != version:
            raise AgreementChanged("another version is in force now; read it before you accept")
        acceptance, is_new = AgreementAcceptance.objects.get_or_create(
            provider=provider,
            agreement=current,
            defaults={"accepted_by": accepted_by, "accepted_at": now, "address": actor.address},
        )
        if is_new:
            audit.record(
                actor=actor,
                event="agreement.accepted",
                subject=provider.public_id,
                now=now,
                organization=provider.organization.public_id,
                detail={"version": version, "sha256": current.sha256},
            )
    return acceptance
