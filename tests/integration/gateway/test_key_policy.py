"""Keys against two real processes: policy, rotation, revocation, places of use, and what a node learns."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import orjson
import pytest

from portal.accounts.models import ApiKey, KeySighting, Organization
from portal.accounts.rules.terms import Budget
from portal.accounts.services import keys, rotation
from portal.accounts.services.organizations import suspend_organization
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import BudgetWindow
from portal.core import clock
from portal.metering.models import UsageRecord
from tests.fakes import scripts
from tests.fakes.scripted_node import ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

GOOD = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me of the sea."}], "max_tokens": 32}
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]
PROXIES = {"TRUSTED_PROXIES": "127.0.0.1", "GATEWAY_COUNTRY_HEADER": "cf-ipcountry"}
PATHS = [("GET", "/v1/models"), ("GET", f"/v1/models/{MODEL}"), ("GET", "/v1/key"), ("POST", "/v1/chat/completions")]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("node")]


@pytest.fixture(scope="module")
def first(pool: Pool) -> Gateway:
    return pool.gateway(index=0, **PROXIES)


@pytest.fixture(scope="module")
def second(pool: Pool) -> Gateway:
    return pool.gateway(index=1, **PROXIES)


@pytest.fixture(scope="module")
def node(pool: Pool, first: Gateway, second: Gateway) -> ScriptedNode:
    return pool.connect(pool.machine(), first, scripts.honest())


@pytest.fixture
def both(first: Gateway, second: Gateway) -> Iterator[list[httpx.Client]]:
    with httpx.Client(base_url=first.url, timeout=30) as one, httpx.Client(base_url=second.url, timeout=30) as two:
        yield [one, two]


def made(pool: Pool, both: list[httpx.Client], organization: Organization | None = None, **terms):
    """Return a new key's text and row once both processes know it."""
    text = pool.new_key(organization or pool.customer, **terms)
    row = ApiKey.objects.latest("id")
    for client in both:
        until("the key is known", lambda client=client: _code(_get(client, text)) != "invalid_api_key", 3)
    return text, row


def _get(client: httpx.Client, text: str, path: str = "/v1/models", **headers: str) -> httpx.Response:
    return client.get(path, headers={"authorization": f"Bearer {text}", **headers})


def _call(client: httpx.Client, text: str, method: str, path: str, **headers: str) -> httpx.Response:
    body = GOOD if method == "POST" else None
    return client.request(method, path, json=body, headers={"authorization": f"Bearer {text}", **headers})


def _ask(client: httpx.Client, text: str, **fields: object) -> httpx.Response:
    return client.post("/v1/chat/completions", json=GOOD | fields, headers={"authorization": f"Bearer {text}"})


def _code(response: httpx.Response) -> str:
    return "" if response.status_code == 200 else response.json()["error"]["code"]


@pytest.mark.parametrize(
    ("forwarded", "code"),
    [
        ("192.0.2.9", ""),
        ("198.51.100.1, 192.0.2.9", ""),
        ("192.0.2.9, 198.51.100.1", "ip_not_allowed"),
        ("::ffff:192.0.2.9", ""),
        ("192.0.2.9, garbage", "ip_not_allowed"),
        ("", "ip_not_allowed"),
    ],
)
def test_a_key_of_certain_networks_works_from_there_alone_on_every_path(pool: Pool, both, forwarded: str, code: str):
    text, _ = made(pool, both, networks=("192.0.2.0/24",))
    headers = {"x-forwarded-for": forwarded} if forwarded else {}

    answers = [_call(client, text, *path, **headers) for client in both for path in PATHS]

    assert {_code(answer) for answer in answers} == {code}
    assert {answer.status_code for answer in answers} == ({403} if code else {200})


def test_a_key_of_certain_models_sees_and_uses_those_alone(pool: Pool, both):
    text, _ = made(pool, both, allowed_models=("acme/other",))

    assert _get(both[0], text).json()["data"] == []
    refused = _ask(both[0], text)
    assert (refused.status_code, _code(refused)) == (403, "model_not_allowed")
    assert _code(_ask(both[0], text, model="no/such")) == "model_not_found"


def test_tools_where_the_key_allows_none(pool: Pool, both):
    text, row = made(pool, both, allows_tools=False)

    refused = _ask(both[0], text, tools=TOOLS)

    assert (refused.status_code, _code(refused)) == (403, "tools_not_allowed")
    assert _ask(both[0], text).status_code == 200
    until("the one answer is recorded", lambda: UsageRecord.objects.filter(api_key_id=row.pk).count() == 1)


def test_both_secrets_draw_on_one_budget_until_the_old_one_ends(pool: Pool, both):
    old, row = made(pool, both, budget=Budget(10_000_000_000))
    grace = timedelta(days=1)
    new = rotation.rotate_key(
        organization=pool.customer, public_id=row.public_id, grace=grace, actor=SYSTEM_ACTOR, now=clock.now()
    ).text
    for client in both:
        until("the new secret is known", lambda client=client: _get(client, new).status_code == 200, 3)

    assert [_ask(client, text).status_code for client in both for text in (old, new)] == [200] * 4
    told = [_get(both[0], text, "/v1/key").json() for text in (old, new)]
    assert [answer["is_old_secret"] for answer in told] == [True, False]
    assert {answer["id"] for answer in told} == {row.public_id}
    window = BudgetWindow.objects.get(owner=row.public_id)
    charged = lambda: sum(r.charge_nano for r in UsageRecord.objects.filter(api_key_id=row.pk))  # noqa: E731
    until("four answers are recorded", lambda: UsageRecord.objects.filter(api_key_id=row.pk).count() == 4)
    assert 0 < charged() <= window.leased_nano + window.used_nano

    rotation.end_grace(organization=pool.customer, public_id=row.public_id, actor=SYSTEM_ACTOR, now=clock.now())

    for client in both:
        until("the old secret is refused", lambda client=client: _code(_get(client, old)) == "revoked_api_key", 1)
        assert "has a new secret" in _get(client, old).json()["error"]["message"]
        assert _get(client, new).status_code == 200


def test_a_grace_ends_by_itself_and_a_revocation_ends_both(pool: Pool, both):
    old, row = made(pool, both)
    new = rotation.rotate_key(
        organization=pool.customer,
        public_id=row.public_id,
        grace=timedelta(seconds=1),
        actor=SYSTEM_ACTOR,
        now=clock.now(),
    ).text

    for client in both:
        until("the grace is over", lambda client=client: _code(_get(client, old)) == "revoked_api_key", 4)
        until("the new secret works", lambda client=client: _get(client, new).status_code == 200, 3)
    keys.revoke_key(organization=pool.customer, public_id=row.public_id, actor=SYSTEM_ACTOR, now=clock.now())
    for client in both:
        until("the new one is refused", lambda client=client: _code(_get(client, new)) == "revoked_api_key", 1)


# litellm#1775, litellm#2149, litellm#9820
def test_a_blocked_key_works_on_no_process_and_no_path(pool: Pool, both):
    text, row = made(pool, both)
    assert [_call(client, text, *path).status_code for client in both for path in PATHS] == [200] * 8

    keys.revoke_key(organization=pool.customer, public_id=row.public_id, actor=SYSTEM_ACTOR, now=clock.now())

    until("all refuse", lambda: {_code(_get(client, text)) for client in both} == {"revoked_api_key"}, 1)
    answers = [_call(client, text, *path) for client in both for path in PATHS]
    assert {(answer.status_code, _code(answer)) for answer in answers} == {(401, "revoked_api_key")}


# litellm#35535
def test_a_key_in_use_is_checked_again_at_each_request(pool: Pool, both):
    organization = pool.organization(1_000_000_000)
    text, _ = made(pool, both, organization)
    assert [_ask(client, text).status_code for client in both] == [200, 200]

    suspend_organization(public_id=organization.public_id, reason="test", actor=SYSTEM_ACTOR, now=clock.now())

    until("both refuse", lambda: {_get(client, text).status_code for client in both} == {403}, 2)
    answers = [_call(client, text, *path) for client in both for path in PATHS]
    assert {_code(answer) for answer in answers} == {"organization_suspended"}


# litellm#38114, Switchyard#410, chap-core#513
def test_no_key_or_secret_reaches_a_node(pool: Pool, both, node: ScriptedNode):
    text, row = made(pool, both)
    seen = len(node.replies)
    secrets = {
        "authorization": f"Bearer {text}",
        "cookie": "session=cookie-secret",
        "x-forwarded-for": "192.0.2.77",
        "x-custom": "header-secret",
        "openai-organization": "organization-secret",
    }
    for client in both:
        body = GOOD | {"user": "user-secret", "metadata": {"a": "metadata-secret"}}
        assert client.post("/v1/chat/completions", json=body, headers=secrets).status_code == 200

    sent = node.replies[seen:]
    assert len(sent) == 2
    for reply in sent:
        wire = orjson.dumps([reply.head, reply.body]).decode()
        for secret in (
            text,
            text.rsplit("-", 2)[1],
            row.public_id,
            row.digest,
            pool.customer.public_id,
            pool.customer.name,
            "192.0.2.77",
            "cookie-secret",
            "header-secret",
            "organization-secret",
            "user-secret",
            "metadata-secret",
        ):
            assert secret not in wire
        assert {name.lower() for name in reply.head} & {"authorization", "cookie", "x-api-key", "headers"} == set()


def test_where_a_key_is_used_becomes_known(pool: Pool, both):
    text, row = made(pool, both)
    for client in both:
        _get(client, text, **{"x-forwarded-for": "203.0.113.77", "cf-ipcountry": "FR"})

    place = until("it is written", KeySighting.objects.filter(key=row, network="203.0.113.0/24").first)

    assert place.country == "FR"
    assert KeySighting.objects.filter(key=row, network="203.0.113.0/24").count() == 1
