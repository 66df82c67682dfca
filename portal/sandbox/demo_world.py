"""The demo's people, model, price and machines, made through the same services that the pages use.

`python -m portal.sandbox.demo_world seed|offer|deploy` runs one step in a process of its own, inside the supervisor's
environment; what it needs comes as JSON on standard input, what it made goes as JSON to standard output.
"""

import json
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import httpx

from portal.sandbox import demo_offers

if TYPE_CHECKING:
    from portal.accounts.models import Organization, User
    from portal.audit.services import Actor
    from portal.providers.models import Provider

CREDIT_MINOR = 1_000_000
SHARE_BPS = 8_000
_USUAL_OUTPUT = 256
_TOKEN_LIFE = timedelta(hours=1)
_AGREEMENT = "demo-1"
_AGREEMENT_TEXT = """Demo agreement, version 1.

The provider offers its machines to the pool and is paid its share of what customers are charged for them.
"""


@dataclass(frozen=True, slots=True)
class DemoPrice:
    """Prices high enough that any answer is worth more than one unit of the currency."""

    prompt_nano_per_mtok: int = 2_000_000_000_000
    cached_nano_per_mtok: int = 500_000_000_000
    completion_nano_per_mtok: int = 10_000_000_000_000
    request_nano: int = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Party:
    """A provider of the demo."""

    name: str
    kind: str
    share_bps: int


def seed(given: dict[str, Any]) -> dict[str, Any]:
    """Make the operator, a provider that can be paid and a customer with credit; return logins and key."""
    from portal.core import clock

    now = clock.now()
    logins = {side: {"email": f"{side}@demo.example", "password": secrets.token_urlsafe(9)} for side in _SIDES}
    operator = _operator(logins["operator"])
    owner = _person("Ada Provider", logins["provider"])
    provider = _provider(owner, operator=_actor(operator), now=now)
    customer_owner = _person("Carl Customer", logins["customer"])
    customer = _customer(customer_owner, now=now)
    _onboard(provider, public_url=given["public_url"], actor=_actor(owner), now=now)
    _buy_credit(customer, customer_owner, now=now)
    return {
        "public_url": given["public_url"],
        "logins": logins,
        "provider": provider.public_id,
        "customer": customer.public_id,
        "api_key": _key(customer, customer_owner, now=now),
    }


def offer(given: dict[str, Any]) -> dict[str, Any]:
    """Put the models into the catalogue where they are missing; return whose the nodes are, and a token for each."""
    from portal.accounts.models import User
    from portal.catalog.models import CatalogModel
    from portal.core import clock
    from portal.providers.models import Provider

    now = clock.now()
    operator = User.objects.get(email=given["operator"])
    provider = _house(operator, now=now) if given["is_house"] else Provider.objects.get(public_id=given["provider"])
    for offered in given["offers"]:
        if not CatalogModel.objects.filter(public_id=offered["model"]).exists():
            _model(offered, actor=_actor(operator), now=now)
    if given["is_external"] and not provider.may_use_external_engine:
        _allow_external(provider, operator=_actor(operator), now=now)
    owner = _member(provider.organization)
    tokens = {name: _token(provider, owner, label=name, now=now) for name in given["nodes"]}
    return {"provider": provider.public_id, "tokens": tokens}


def deploy(given: dict[str, Any]) -> dict[str, Any]:
    """Tell the provider's enrolled nodes to run the models; return the deployments by node name."""
    from portal.catalog.models import CatalogModel
    from portal.core import clock
    from portal.nodes.models import Deployment, EngineKind, Node
    from portal.nodes.services import deployments

    models = {row: given["models"][row.public_id] for row in CatalogModel.objects.filter(public_id__in=given["models"])}
    nodes = Node.objects.filter(provider__public_id=given["provider"], name__in=given["nodes"]).order_by("name", "id")
    made: dict[str, list[str]] = {}
    for node, (model, settings) in product(nodes, models.items()):
        known = Deployment.objects.filter(node=node, model=model).first()
        if known is None:
            known = deployments.deploy(
                node=node,
                model=model,
                engine=EngineKind(given["engine"]),
                settings=settings,
                max_concurrency=int(given["max_concurrency"]),
                actor=_actor(_member(node.provider.organization)),
                now=clock.now(),
            )
        made.setdefault(node.name, []).append(known.public_id)
    return {"deployments": made}


def _operator(login: dict[str, str]) -> "User":
    return _person("Olive Operator", login, is_operator=True)


def _person(name: str, login: dict[str, str], *, is_operator: bool = False) -> "User":
    from allauth.account.models import EmailAddress

    from portal.accounts.models import User

    user = User.objects.create_user(login["email"], login["password"], name=name, is_operator=is_operator)
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    return user


def _actor(user: "User") -> "Actor":
    from portal.audit.services import Actor

    return Actor(public_id=user.public_id)


def _member(organization: "Organization") -> "User":
    return organization.memberships.select_related("user").order_by("id")[0].user


def _model(offered: dict[str, Any], *, actor: "Actor", now: datetime) -> None:
    from portal.billing.services import prices
    from portal.catalog.models import ArtefactKind, ModelTask
    from portal.catalog.services import artefacts, models

    dimensions = offered["embedding_dimensions"]
    tokenizer = Path(offered["tokenizer"]).read_bytes()
    longest = demo_offers.longest_output(int(offered["context_tokens"]))
    spec = models.ModelSpec(
        public_id=offered["model"],
        name=offered["name"],
        source=offered["source"],
        revision="1",
        artefact_digest=offered["digest"],
        licence="Apache-2.0",
        is_commercial_use_allowed=True,
        context_tokens=int(offered["context_tokens"]),
        max_output_tokens=longest,
        default_output_tokens=min(_USUAL_OUTPUT, longest),
        dtype=offered["dtype"],
        task=ModelTask.CHAT if dimensions is None else ModelTask.EMBEDDING,
        embedding_dimensions=dimensions,
        config=_config(offered["config"]),
        tokenizer=artefacts.add_artefact(kind=ArtefactKind.TOKENIZER, content=tokenizer, now=now).sha256,
        chat_template=_template(offered["template"], now=now),
        engine_args=offered["engine_args"] or {},
        supported_parameters=_SUPPORTED if dimensions is None else _SUPPORTED_BY_VECTORS,
    )
    models.create_model(spec=spec, actor=actor, now=now)
    model = models.activate_model(public_id=spec.public_id, actor=actor, now=now)
    prices.set_price(model=model, terms=DemoPrice(), actor=actor, now=now)


def _config(path: str) -> dict[str, object] | None:
    """The config.json as it is stored; None where there is none, or none that a plan can be made from."""
    from poolhouse_common import planner

    if not path:
        return None
    try:
        config = planner.parse_config(Path(path).read_bytes())
        planner.read_shape(config=config)
    except planner.ConfigRefused:
        return None
    return config


def _template(path: str, *, now: datetime) -> str | None:
    from portal.catalog.models import ArtefactKind
    from portal.catalog.services import artefacts

    if not path:
        return None
    content = demo_offers.template_text(Path(path))
    return str(artefacts.add_artefact(kind=ArtefactKind.CHAT_TEMPLATE, content=content, now=now).sha256)


def _allow_external(provider: "Provider", *, operator: "Actor", now: datetime) -> None:
    from portal.providers.services import review

    review.set_external_engine(provider_id=provider.public_id, allowed=True, actor=operator, now=now)


def _provider(owner: "User", *, operator: "Actor", now: datetime) -> "Provider":
    from portal.providers.models import ProviderKind
    from portal.providers.services import agreements

    agreements.publish_agreement(version=_AGREEMENT, text=_AGREEMENT_TEXT, effective_from=now, actor=operator, now=now)
    party = Party(name="Demo GPUs", kind=ProviderKind.CONTRACTED, share_bps=SHARE_BPS)
    return _approved(party, owner, operator=operator, now=now)


def _house(operator: "User", *, now: datetime) -> "Provider":
    """Return the operator's own provider, whose nodes earn nothing and owe no inventory of GPUs."""
    from portal.providers.models import Provider, ProviderKind

    known = Provider.objects.filter(kind=ProviderKind.HOUSE).order_by("id").first()
    party = Party(name="Demo House", kind=ProviderKind.HOUSE, share_bps=0)
    return known or _approved(party, operator, operator=_actor(operator), now=now)


def _approved(party: Party, owner: "User", *, operator: "Actor", now: datetime) -> "Provider":
    """Walk a provider from its organization to the operator's yes."""
    from portal.accounts.services import organizations
    from portal.billing.services import prices
    from portal.providers.models import ProviderKind
    from portal.providers.services import agreements, profile, review

    actor = _actor(owner)
    organization = organizations.create_organization(
        name=party.name, owner=owner, country="DE", now=now, is_provider=True, is_customer=False
    )
    words = profile.Profile(legal_name=f"{party.name} GmbH", contact_email=owner.email, country="DE")
    made = profile.create_provider(organization=organization, profile=words, actor=actor, now=now)
    agreements.accept_agreement(provider_id=made.public_id, version=_AGREEMENT, accepted_by=owner, actor=actor, now=now)
    profile.submit_provider(provider_id=made.public_id, actor=actor, now=now)
    review.set_kind(provider_id=made.public_id, kind=ProviderKind(party.kind), actor=operator, now=now)
    approved = review.approve_provider(provider_id=made.public_id, actor=operator, now=now)
    prices.set_share(provider=approved, share_bps=party.share_bps, actor=operator, now=now)
    return approved


def _customer(owner: "User", *, now: datetime) -> "Organization":
    from portal.accounts.services import organizations

    return organizations.create_organization(name="Demo Customer", owner=owner, country="DE", now=now)


def _onboard(provider: "Provider", *, public_url: str, actor: "Actor", now: datetime) -> None:
    """Walk the provider through the hosted onboarding page, as a person would."""
    from portal.core import clock
    from portal.payouts.services import accounts

    back = f"{public_url}/provider/payouts/"
    url = accounts.start_onboarding(provider=provider, return_url=back, refresh_url=back, actor=actor, now=now)
    _post(url, "complete")
    accounts.refresh(provider_id=provider.public_id, now=clock.now())


def _buy_credit(customer: "Organization", owner: "User", *, now: datetime) -> None:
    """Buy credit on the hosted Checkout page; the webhook brings it in."""
    from portal.billing.models import TopUp, TopUpState
    from portal.billing.services import topups
    from portal.sandbox import waiting

    bought = topups.start_topup(
        organization=customer,
        wanted=topups.Wanted(amount_minor=CREDIT_MINOR, client_key="demo", created_by=owner),
        actor=_actor(owner),
        now=now,
    )
    _post(bought.checkout_url, "pay")
    waiting.until(
        "the top-up is paid",
        lambda: TopUp.objects.filter(pk=bought.pk, state=TopUpState.PAID).exists(),
        timeout_s=30,
    )


def _post(url: str, action: str) -> None:
    answer = httpx.post(url, data={"action": action}, timeout=20, trust_env=False, follow_redirects=False)
    if answer.status_code not in {httpx.codes.OK, httpx.codes.SEE_OTHER, httpx.codes.FOUND}:
        raise RuntimeError(f"the hosted page {url} answered {answer.status_code}: {answer.text[:300]}")


def _key(customer: "Organization", owner: "User", *, now: datetime) -> str:
    from portal.accounts.rules.key_terms import KeyTerms
    from portal.accounts.rules.terms import Budget
    from portal.accounts.services import keys
    from portal.core.money import NANO_PER_UNIT

    budget = Budget(cap_nano=CREDIT_MINOR * NANO_PER_UNIT // 100)
    created = keys.create_key(
        organization=customer,
        terms=KeyTerms(name="Demo key", budget=budget),
        created_by=owner,
        actor=_actor(owner),
        now=now,
    )
    return created.text


def _token(provider: "Provider", owner: "User", *, label: str, now: datetime) -> str:
    from portal.nodes.services import enrolment

    created = enrolment.create_token(
        provider=provider, label=label, created_by=owner, actor=_actor(owner), now=now, ttl=_TOKEN_LIFE
    )
    return str(created.text)


_SIDES = ("operator", "provider", "customer")
_SUPPORTED = ("temperature", "top_p", "stop", "seed", "tools", "tool_choice", "response_format", "structured_outputs")
_SUPPORTED_BY_VECTORS = ("dimensions", "encoding_format")
_STEPS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "seed": seed,
    "offer": offer,
    "deploy": deploy,
}


def main() -> None:
    """Run the step that is named on the command line."""
    given = json.loads(sys.stdin.read() or "{}")
    django.setup()
    print(json.dumps(_STEPS[sys.argv[1]](given)))


if __name__ == "__main__":
    main()
