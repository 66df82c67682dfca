"""The form of a key's terms, for a new key and for one that changes."""

from datetime import UTC, datetime, time
from typing import Any, cast

from django import forms
from django.http import QueryDict

from portal.accounts.models import ApiKey, Organization
from portal.accounts.rules import key_terms
from portal.accounts.rules.key_terms import KeyTerms
from portal.accounts.selectors import projects
from portal.accounts.services.keys import terms_of
from portal.catalog.selectors.models import offered_models
from portal.web.countries import COUNTRIES
from portal.web.term_fields import BudgetFields, LimitFields, budget_initial, limits_initial

CLASS_MEANING = {
    "house": "House: machines the operator owns or rents",
    "contracted": "Contracted: identified owners who signed terms with the operator",
    "community": "Community: identified owners without a contract; an owner could read prompts and answers",
    "unidentified": "Unidentified: owners nobody has checked; only for text that may become public",
}


class KeyForm(LimitFields, BudgetFields):
    """The terms of a key."""

    name = forms.CharField(max_length=80, help_text="Where it will be used, for example “staging backend”.")
    project = forms.ChoiceField(
        required=False, help_text="Its limits and budget hold over all its keys together, beside the key's own."
    )
    expires_on = forms.DateField(
        label="Expires on",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Refused from this day, 00:00 UTC.",
    )
    node_classes = forms.MultipleChoiceField(
        label="Which nodes may serve it",
        choices=[(name, CLASS_MEANING[name]) for name in key_terms.NODE_CLASSES],
        widget=forms.CheckboxSelectMultiple,
        help_text="Every answer says which class served it.",
    )
    is_private_only = forms.BooleanField(
        label="Private nodes only",
        required=False,
        help_text="Nodes that their owners opened to your organization. Without one the request is refused.",
    )
    countries = forms.MultipleChoiceField(
        label="Countries whose nodes may serve it",
        required=False,
        choices=COUNTRIES,
        widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="None chosen: any country.",
    )
    allows_tools = forms.BooleanField(
        label="Allow tool calls", required=False, help_text="Without this, requests with tools are refused."
    )
    tools_on_any_class = forms.BooleanField(
        label="Allow tool calls on every class chosen above",
        required=False,
        help_text="A node can forge a tool call; without this, tools go to house and contracted nodes only.",
    )
    allowed_models = forms.MultipleChoiceField(
        label="Models it may use",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: every model, those that come later among them.",
    )
    networks = forms.CharField(
        label="Networks it may be used from",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="One address or network a line, such as 192.0.2.0/24 or 2001:db8::/32. Empty: from anywhere.",
    )
    field_order = (
        "name",
        "project",
        "budget_cap",
        "budget_period",
        "expires_on",
        "node_classes",
        "is_private_only",
        "countries",
        "allows_tools",
        "tools_on_any_class",
        "allowed_models",
        "networks",
    )

    def __init__(self, data: QueryDict | None, *, organization: Organization, key: ApiKey | None = None) -> None:
        shown = terms_of(key) if key else KeyTerms(name="")
        super().__init__(data, initial=_initial(shown))
        cast("forms.ChoiceField", self.fields["project"]).choices = _projects(organization, key)
        cast("forms.ChoiceField", self.fields["allowed_models"]).choices = _models(shown)

    def clean_networks(self) -> tuple[str, ...]:
        """Read one network a line."""
        lines = self.cleaned_data["networks"].replace(",", "\n").split("\n")
        return tuple(line.strip() for line in lines if line.strip())

    def clean_expires_on(self) -> datetime | None:
        """Read the day as its first moment in UTC."""
        day = self.cleaned_data["expires_on"]
        return datetime.combine(day, time(), tzinfo=UTC) if day else None

    def terms(self) -> KeyTerms:
        """Return the terms that were asked for."""
        asked = self.cleaned_data
        return KeyTerms(
            name=asked["name"],
            node_classes=tuple(asked["node_classes"]),
            budget=self.budget(),
            limits=self.limits(),
            expires_at=asked["expires_on"],
            project=asked["project"] or None,
            allows_tools=asked["allows_tools"],
            tools_on_any_class=asked["tools_on_any_class"],
            is_private_only=asked["is_private_only"],
            allowed_models=tuple(asked["allowed_models"]) or None,
            networks=asked["networks"],
            countries=tuple(asked["countries"]) or None,
        )


def _initial(terms: KeyTerms) -> dict[str, Any]:
    return {
        "name": terms.name,
        "project": terms.project or "",
        "expires_on": terms.expires_at.date() if terms.expires_at else None,
        "node_classes": list(terms.node_classes),
        "is_private_only": terms.is_private_only,
        "countries": list(terms.countries or ()),
        "allows_tools": terms.allows_tools,
        "tools_on_any_class": terms.tools_on_any_class,
        "allowed_models": list(terms.allowed_models or ()),
        "networks": "\n".join(terms.networks),
        **budget_initial(terms.budget),
        **limits_initial(terms.limits),
    }


def _projects(organization: Organization, key: ApiKey | None) -> list[tuple[str, str]]:
    found = [(row.public_id, row.name) for row in projects.open_projects(organization=organization)]
    if key is not None and key.project is not None and key.project.archived_at is not None:
        found.append((key.project.public_id, key.project.name))
    return [("", "none"), *found]


def _models(terms: KeyTerms) -> list[tuple[str, str]]:
    """Return the models on offer, and those the key names already, which may have left the catalogue."""
    offered = {model.public_id: f"{model.name} ({model.public_id})" for model in offered_models()}
    gone = {name: f"{name}, no longer offered" for name in terms.allowed_models or () if name not in offered}
    return list((offered | gone).items())
