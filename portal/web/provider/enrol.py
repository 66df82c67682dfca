"""Adding a node: a token, the commands for the machine, and waiting for it to appear. Main route `provider:enrol`."""

from datetime import datetime, timedelta

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Role
from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.models import EnrolmentToken, NodeState
from portal.nodes.selectors import nodes as selectors
from portal.nodes.selectors.installer import script_digest
from portal.nodes.selectors.releases import to_install
from portal.nodes.selectors.rows import explained
from portal.nodes.services import enrolment
from portal.web.access import ProviderRequest, provider_page

_HOURS = [("1", "1 hour"), ("8", "8 hours"), ("24", "1 day"), ("168", "7 days")]


class TokenForm(forms.Form):
    """What the token is for and how long it is good."""

    label = forms.CharField(max_length=80, required=False, help_text="For your own list, for example “rack 4”.")
    hours = forms.ChoiceField(label="Good for", choices=_HOURS, help_text="One machine joins with it, once.")


@provider_page(role=Role.MEMBER)
def enrol(request: ProviderRequest) -> HttpResponse:
    """Ask for a token; the answer to the POST shows it once, with the commands for the machine."""
    now = clock.now()
    form = TokenForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = _create(request, form, now)
        except DomainError as error:
            form.add_error(None, error.sentences)
        else:
            context = {"token": made.row, "commands": commands(made.text), "waiting": waiting(made.row, now)}
            return render(request, "provider/enrol_commands.html", context)
    rows = [(row, token_state(row, now)) for row in selectors.tokens_of(provider=request.provider)]
    return render(request, "provider/enrol.html", {"form": form, "rows": rows, "provider": request.provider})


@provider_page(role=Role.MEMBER)
def wait(request: ProviderRequest, token: str) -> HttpResponse:
    """Say whether the machine has joined; htmx asks every few seconds, without it a link does."""
    row = selectors.token_of(provider=request.provider, public_id=token)
    template = "provider/enrol_waiting.html" if request.headers.get("hx-request") else "provider/enrol_wait.html"
    return render(request, template, {"token": row, "waiting": waiting(row, clock.now())})


@provider_page(role=Role.MEMBER)
def revoke(request: ProviderRequest, token: str) -> HttpResponse:
    """Make a token worthless, after asking."""
    row = selectors.token_of(provider=request.provider, public_id=token)
    if request.method == "POST":
        enrolment.revoke_token(provider=request.provider, public_id=token, actor=request.actor, now=clock.now())
        messages.success(request, "The token is revoked.")
        return redirect("provider:enrol")
    return render(request, "provider/enrol_revoke.html", {"token": row})


def commands(text: str) -> dict[str, object]:
    """Return what to run on the machine: everything in one command, and the same step by step."""
    server = settings.PUBLIC_URL
    join = f"join --server {server} --token-file poolhouse.token && rm poolhouse.token"
    release = to_install()
    fetch = (
        f"curl -fsSLo install.sh {server}/agent/install.sh"
        f" && echo '{script_digest(release)}  install.sh' | sha256sum -c -"
        if release
        else ""
    )
    return {
        "is_served": release is not None,
        "all_at_once": f"{fetch} && printf '%s\\n' '{text}' | sudo sh install.sh --join",
        "install": f"{fetch} && sudo sh install.sh",
        "steps": [
            (
                "Put the token into a file that only you can read",
                f"(umask 077 && printf '%s\\n' '{text}' > poolhouse.token)",
            ),
            ("Join this pool", f"sudo poolhouse-agent {join}"),
            ("Run the agent, now and after each start of the machine", "sudo poolhouse-agent service install"),
        ],
    }


def token_state(row: EnrolmentToken, now: datetime) -> str:
    """Return used, revoked, expired or open."""
    if row.node_id is not None:
        return "used"
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at <= now else "open"


def waiting(row: EnrolmentToken, now: datetime) -> dict[str, object]:
    """Return what the waiting panel shows."""
    node = row.node
    is_done = node is not None and node.state != NodeState.ENROLLED
    return {
        "token": row.public_id,
        "state": token_state(row, now),
        "node": node,
        "why": explained(node.state_code or "waiting_for_agent") if node else None,
        "is_done": is_done,
        "keeps_asking": not is_done and token_state(row, now) in {"open", "used"},
    }


def _create(request: ProviderRequest, form: TokenForm, now: datetime) -> enrolment.CreatedToken:
    return enrolment.create_token(
        provider=request.provider,
        label=form.cleaned_data["label"],
        created_by=request.user,
        actor=request.actor,
        now=now,
        ttl=timedelta(hours=int(form.cleaned_data["hours"])),
    )


urlpatterns = [
    path("enrol/", enrol, name="enrol"),
    path("enrol/<str:token>/", wait, name="enrol-wait"),
    path("enrol/<str:token>/revoke/", revoke, name="enrol-revoke"),
]
