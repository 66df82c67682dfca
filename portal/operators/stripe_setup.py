"""Everything that the doctor of Stripe looks at, in the order in which one would set it up; and the operator's page."""

from datetime import datetime

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.core import clock
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.services import doctor, key_doctor
from portal.payouts.services.doctor import Finding
from portal.webhooks.services import doctor as webhook_doctor

_TONES = {"ok": "ok", "warn": "warn", "fail": "crit"}
_ORDER = {"fail": 0, "warn": 1, "ok": 2}


def examine(*, now: datetime) -> list[Finding]:
    """Return every finding: settings, account, books, permissions, endpoints, inbox, and what a recovery left."""
    found = doctor.examine(now=now)
    if any(one.id == "api" and one.status == "ok" for one in found):
        found += [*key_doctor.examine(now=now), *webhook_doctor.endpoints()]
    found += webhook_doctor.examine(now=now)
    return [*found, *doctor.unmatched_findings(), *doctor.recovery_findings()]


@operator_page
def stripe_setup(request: OperatorRequest) -> HttpResponse:
    """Show how Stripe is set up: what is wrong first, each with its cause and what to do."""
    findings = examine(now=clock.now())
    rows = [(one, _TONES[one.status]) for one in sorted(findings, key=lambda one: _ORDER[one.status])]
    wrong = sum(one.status != "ok" for one in findings)
    return render(request, "operators/stripe_setup.html", {"rows": rows, "wrong": wrong})


urlpatterns = [path("stripe/", stripe_setup, name="stripe-setup")]
