"""The provider's pages of nodes: what they show and what they do."""

import re
from datetime import timedelta

import pytest

from portal.core import clock
from portal.nodes.models import Deployment, EnrolmentToken, NodeState
from portal.nodes.rules.beats import UpdateClaim
from portal.nodes.services import releases
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import (
    AgentKey,
    DeploymentFactory,
    EnrolmentTokenFactory,
    GpuFactory,
    NodeEventFactory,
    NodeFactory,
    TunnelFactory,
)
from tests.integration.nodes.agent import Agent
from tests.world import World


@pytest.fixture
def browser(world: World):
    return world.client(world.supplier.owner)


@pytest.fixture
def node(world: World):
    return NodeFactory(provider=world.provider, name="rack4-7", host={"os": "Debian 12", "cpu_count": "odd"})


def text(response) -> str:
    assert response.status_code == 200, response.status_code
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.text))


def test_the_list_says_why_a_node_gets_no_work(browser, world, node):
    NodeFactory(provider=world.provider, state=NodeState.OFFLINE, state_code="heartbeat_missed", name="dark")
    NodeFactory(name="foreign")

    page = text(browser.get("/provider/nodes/"))

    assert "rack4-7" in page
    assert "No sign of life" in page
    assert "foreign" not in page
    assert "dark" in text(browser.get("/provider/nodes/?state=offline"))
    assert "rack4-7" not in text(browser.get("/provider/nodes/?state=offline"))
    assert "No node is in this state" in text(browser.get("/provider/nodes/?state=draining"))


def test_an_empty_list_leads_to_the_first_node(browser):
    assert "No nodes yet" in text(browser.get("/provider/nodes/"))


def test_a_nodes_page_shows_claims_causes_and_fixes(browser, node):
    TunnelFactory(node=node)
    GpuFactory(node=node, report={"values": {"temperature_c": 41, "power_mw": 28_500}, "missing": {}})
    GpuFactory(node=node, is_present=False, memory_bytes=None, report={})
    row = DeploymentFactory(
        node=node, model__plain=True, observed="failed", observed_code="out_of_gpu_memory", observed_detail="24 GiB"
    )
    NodeEventFactory(node=node, code="node_cloned", detail={"addresses": ["192.0.2.7", "198.51.100.9"]})
    node.load = {"gpu_errors": [{"code": "gpu_is_lost", "detail": "GPU 1"}]}
    node.save()

    page = text(browser.get(f"/provider/nodes/{node.public_id}/"))

    for words in (
        "This node takes requests",
        "41 °C",
        "28 W",
        "24 GiB",
        "missing",
        row.model.name,
        "Not enough GPU memory",
        "Lower the context or the concurrency",
        "A GPU has fallen off the bus",
        "192.0.2.7, 198.51.100.9",
        "Debian 12",
    ):
        assert words in page, words


def test_the_live_part_comes_alone_for_htmx(browser, node):
    response = browser.get(f"/provider/nodes/{node.public_id}/?live=1")

    assert response.status_code == 200
    assert "<html" not in response.text
    assert "Why this node gets no work: The tunnel broke" in text(response)


def test_a_suspended_node_shows_the_reason(browser, world):
    node = NodeFactory(
        provider=world.provider, state="suspended", state_code="node_suspended", state_reason="Wrong answers"
    )

    page = text(browser.get(f"/provider/nodes/{node.public_id}/"))

    assert "The node is suspended" in page
    assert "Wrong answers" in page
    assert "Deploy a model" not in page


def test_a_model_is_deployed_and_stopped(browser, node):
    model = CatalogModelFactory(plain=True)
    form = {"model": model.public_id, "engine": "vllm", "max_concurrency": "3"}

    assert browser.post(f"/provider/nodes/{node.public_id}/deploy/", form).status_code == 302

    row = Deployment.objects.get()
    assert (row.node, row.model, row.max_concurrency, row.desired) == (node, model, 3, "running")
    stop = f"/provider/deployments/{row.public_id}/stop/"
    assert "Running answers end normally" in text(browser.get(stop))
    row.refresh_from_db()
    assert row.desired == "running"
    browser.post(stop)
    row.refresh_from_db()
    assert row.desired == "stopped"


@pytest.mark.parametrize(
    "change", [{"engine": "external"}, {"engine": "simulate"}, {"model": "no/such"}, {"max_concurrency": "0"}]
)
def test_a_deployment_that_is_not_allowed_is_refused_in_the_form(browser, node, change):
    model = CatalogModelFactory(plain=True)
    form = {"model": model.public_id, "engine": "vllm", "max_concurrency": "3", **change}

    response = browser.post(f"/provider/nodes/{node.public_id}/deploy/", form)

    assert response.status_code == 200
    assert "errorlist" in response.text
    assert not Deployment.objects.exists()


def test_a_model_that_runs_already_is_said_so(browser, node):
    row = DeploymentFactory(node=node, model__plain=True)
    form = {"model": row.model.public_id, "engine": "vllm", "max_concurrency": "3"}

    response = browser.post(f"/provider/nodes/{node.public_id}/deploy/", form)

    assert "is already deployed on rack4-7" in text(response)


def test_drain_and_resume_ask_first(browser, node):
    for word in ("drain", "resume"):
        assert browser.get(f"/provider/nodes/{node.public_id}/{word}/").status_code == 200
    node.refresh_from_db()
    assert node.state == "serving"

    browser.post(f"/provider/nodes/{node.public_id}/drain/")
    node.refresh_from_db()
    assert (node.state, node.is_drain_wanted) == ("draining", True)

    browser.post(f"/provider/nodes/{node.public_id}/resume/")
    node.refresh_from_db()
    assert (node.state, node.is_drain_wanted) == ("checking", False)


def test_retiring_needs_the_nodes_name(browser, node):
    address = f"/provider/nodes/{node.public_id}/retire/"

    assert "This node is called rack4-7" in text(browser.post(address, {"name": "rack4"}))
    node.refresh_from_db()
    assert node.state == "serving"

    assert browser.post(address, {"name": "rack4-7"}).status_code == 302
    node.refresh_from_db()
    assert node.state == "retired"


def test_a_member_cannot_retire(world, node):
    response = world.client(world.supplier.member).post(
        f"/provider/nodes/{node.public_id}/retire/", {"name": "rack4-7"}
    )

    assert response.status_code == 403
    node.refresh_from_db()
    assert node.state == "serving"


def test_a_token_is_shown_once_with_the_exact_commands(browser, world, settings):
    settings.PUBLIC_URL = "https://pool.example"

    response = browser.post("/provider/enrol/", {"label": "rack 4", "hours": "1"})

    token = re.search(r"ph-enrol-[0-9a-z]{32}", response.text).group()
    command = "poolhouse-agent join --server https://pool.example --token-file poolhouse.token"
    assert command in response.text
    assert "umask 077" in response.text
    assert EnrolmentToken.objects.get().provider == world.provider
    assert token not in browser.get("/provider/enrol/").text


def test_the_waiting_panel_finds_the_node(browser, world):
    shown = browser.post("/provider/enrol/", {"label": "", "hours": "1"}).text
    token, address = re.search(r"ph-enrol-\w{32}", shown).group(), EnrolmentToken.objects.get().public_id
    waiting = f"/provider/enrol/{address}/"
    asked = {"hx-request": "true"}
    first = browser.get(waiting, headers=asked)
    assert ("Nothing has joined" in text(first), "every 3s" in first.text) == (True, True)

    agent = Agent(key=AgentKey.of(1))
    agent.enrol(token, clock.now())
    second = browser.get(waiting, headers=asked)
    assert ("The machine has joined" in text(second), "every 3s" in second.text) == (True, True)
    assert "systemctl start poolhouse-agent" in text(second)

    agent.open(clock.now())
    third = browser.get(waiting, headers=asked)
    assert ("The node is here" in text(third), "every 3s" in third.text) == (True, False)
    assert "Deploy a model" in text(browser.get(waiting))


def test_a_token_that_is_over_stops_waiting(browser, world):
    row = EnrolmentTokenFactory(provider=world.provider, expires_at=clock.now() - timedelta(minutes=1))

    response = browser.get(f"/provider/enrol/{row.public_id}/")

    assert "Nothing can join with this token any more" in text(response)
    assert "every 3s" not in response.text


def test_a_token_is_revoked_after_asking(browser, world):
    row = EnrolmentTokenFactory(provider=world.provider)
    address = f"/provider/enrol/{row.public_id}/revoke/"

    assert browser.get(address).status_code == 200
    row.refresh_from_db()
    assert row.revoked_at is None
    browser.post(address)
    row.refresh_from_db()
    assert row.revoked_at is not None


def test_a_list_of_many_nodes_costs_few_queries(browser, world, django_assert_max_num_queries):
    for _ in range(30):
        node = NodeFactory(provider=world.provider)
        GpuFactory(node=node)

    with django_assert_max_num_queries(20):
        browser.get("/provider/nodes/")


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (None, ["the agent has not said yet"]),
        (UpdateClaim("automatic", "0.2.0"), ["come by themselves", "0.2.0: installed, and it has reached the pool"]),
        (
            UpdateClaim("automatic", "0.2.0", "release_rolled_back"),
            ["0.2.0: did not come to stay", "no session or no tunnel in time", "journalctl -u poolhouse-agent"],
        ),
        (UpdateClaim("held"), ["held back by the owner", "poolhouse-agent update allow", "updates_held"]),
        (UpdateClaim("manual"), ["by hand", "was not installed by install.sh", "updates_manual"]),
    ],
    ids=["not said", "done", "taken back", "held", "by hand"],
)  # fmt: skip
def test_a_nodes_page_tells_how_its_agents_updates_go(browser, world, node, claim, words):
    if claim is not None:
        releases.take(node=node, claim=claim, now=clock.now())

    mine = text(browser.get(f"/provider/nodes/{node.public_id}/"))
    operators = text(world.client(world.operator).get(f"/operator/nodes/{node.public_id}/"))

    for page in (mine, operators):
        assert [one for one in words if one not in page] == []


def test_a_nodes_page_says_that_its_agent_is_too_far_from_the_pool(browser, node):
    node.agent_version = "9.0.0"
    node.save()

    page = text(browser.get(f"/provider/nodes/{node.public_id}/"))

    assert "This agent is newer than the pool" in page
    assert "agent_ahead" in page
