"""What holds over all keys: the organization's limits, the operator's ceilings, the zone, messages to owners."""

import pytest

from portal.accounts.models import Organization
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services import organization_terms
from portal.accounts.services.organization_terms import Alerts, OrganizationTerms
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue
from tests.integration.accounts.acting import ACTOR, announcements
from tests.world import World


def test_limits_and_budget_are_kept_announced_and_audited(world: World, now):
    organization = world.customer.organization
    wanted = OrganizationTerms(LimitTerms(1_000, 2_000_000, 64), Budget(900_000_000_000, "month"))

    with announcements() as heard:
        organization_terms.change_terms(organization=organization, wanted=wanted, actor=ACTOR, now=now)

    assert organization_terms.terms_of(Organization.objects.get(pk=organization.pk)) == wanted
    assert heard == [f"organizations:{organization.public_id}"]
    detail = AuditEvent.objects.get(event="organization.limits_changed").detail
    assert (detail["from"]["budget"]["cap_nano"], detail["to"]["budget"]["cap_nano"]) == (None, 900_000_000_000)


def test_ceilings_are_the_operators_and_stay_beside_the_own_limits(world: World, now):
    organization = world.customer.organization
    own = OrganizationTerms(LimitTerms(1_000, None, None), Budget())
    organization_terms.change_terms(organization=organization, wanted=own, actor=ACTOR, now=now)

    organization_terms.set_ceilings(
        public_id=organization.public_id, ceilings=LimitTerms(300, 50_000, None), actor=ACTOR, now=now
    )

    row = Organization.objects.get(pk=organization.pk)
    assert organization_terms.terms_of(row) == own
    assert organization_terms.ceilings_of(row) == LimitTerms(300, 50_000, None)
    assert AuditEvent.objects.get(event="organization.ceilings_set").subject == organization.public_id


def test_an_unknown_zone_is_refused(world: World, now):
    organization = world.customer.organization

    organization_terms.set_time_zone(organization=organization, time_zone="Europe/Berlin", actor=ACTOR, now=now)
    for wrong in ("Moon/Base", "../etc/passwd", ""):
        with pytest.raises(InvalidValue) as refusal:
            organization_terms.set_time_zone(organization=organization, time_zone=wrong, actor=ACTOR, now=now)
        assert refusal.value.param == "time_zone"

    assert Organization.objects.get(pk=organization.pk).time_zone == "Europe/Berlin"


def test_messages_can_be_turned_off(world: World, now):
    organization = world.customer.organization

    organization_terms.set_alerts(organization=organization, alerts=Alerts(False, True, False), actor=ACTOR, now=now)

    row = Organization.objects.get(pk=organization.pk)
    assert (row.alerts_new_network, row.alerts_new_country, row.alerts_spend_spike) == (False, True, False)
