"""Releases of the agent: published as signed, rolled out by ring and percentage, halted by failures, held by owners."""

import pytest

from portal.audit.models import AuditEvent
from portal.core.errors import Conflict, InvalidValue, NotFound
from portal.nodes.models import AgentRelease, Node, ReleaseRing, ReleaseState
from portal.nodes.rules.beats import Beat, UpdateClaim
from portal.nodes.rules.releases import ReleaseInvalid, ReleaseSignatureInvalid
from portal.nodes.selectors import releases as selectors
from portal.nodes.services import heartbeat, releases
from tests.factories.nodes import NodeFactory
from tests.factories.releases import OTHER_KEY, PUBLIC_KEY, files


@pytest.fixture(autouse=True)
def pinned(settings, db) -> None:
    settings.AGENT_RELEASE_PUBLIC_KEY = PUBLIC_KEY


@pytest.fixture
def publish(actor, now):
    def act(
        version: str = "0.2.0", *, percent: int = 100, ring: ReleaseRing = ReleaseRing.ALL, **fields
    ) -> AgentRelease:
        return releases.publish(files=files(version, **fields), ring=ring, percent=percent, actor=actor, now=now)

    return act


def test_a_release_is_kept_byte_by_byte(publish) -> None:
    publish()

    made, kept = files(), AgentRelease.objects.get()
    assert bytes(kept.manifest) == made.manifest
    assert (kept.signature, bytes(kept.wheel), bytes(kept.requirements)) == (
        made.signature, made.wheel, made.requirements,
    )  # fmt: skip
    assert AuditEvent.objects.get().event == "agent_release.published"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"key": OTHER_KEY}, ReleaseSignatureInvalid),
        ({"key": None}, ReleaseSignatureInvalid),
        ({"format": 7}, ReleaseInvalid),
    ],
)
def test_what_the_pools_key_did_not_sign_is_refused(publish, fields, error) -> None:
    with pytest.raises(error):
        publish(**fields)

    assert not AgentRelease.objects.exists()


def test_a_file_that_is_not_the_manifests_is_refused(actor, now) -> None:
    made = files()
    swapped = releases.Files(made.manifest, made.signature, b"wheeL", made.requirements)

    with pytest.raises(ReleaseInvalid):
        releases.publish(files=swapped, ring=ReleaseRing.ALL, percent=100, actor=actor, now=now)

    assert not AgentRelease.objects.exists()


def test_the_same_release_again_changes_nothing_and_another_of_that_version_is_refused(publish) -> None:
    publish(percent=5)

    assert publish(percent=100).percent == 5
    with pytest.raises(releases.ReleaseExists):
        publish(wheel=b"other")

    assert AuditEvent.objects.count() == 1


def test_a_pool_without_a_key_serves_releases_that_no_node_is_offered(publish, settings) -> None:
    settings.AGENT_RELEASE_PUBLIC_KEY = ""

    publish(key=None)

    assert selectors.to_install().version == "0.2.0"
    assert selectors.offer_for(NodeFactory(agent_version="0.1.0")) == ""


def test_a_node_is_offered_the_newest_that_has_reached_it(publish) -> None:
    house, stranger = (NodeFactory(agent_version="0.1.0", node_class=one) for one in ("house", "community"))
    publish("0.2.0")
    publish("0.3.0", ring=ReleaseRing.HOUSE)
    publish("0.4.0", percent=0)

    assert (selectors.offer_for(house), selectors.offer_for(stranger)) == ("0.3.0", "0.2.0")


@pytest.mark.parametrize("version", ["0.2.0", "0.2.1", "1.0.0", "built by hand"])
def test_nobody_is_offered_what_is_not_newer(publish, version) -> None:
    publish("0.2.0")

    assert selectors.offer_for(NodeFactory(agent_version=version)) == ""


def test_a_new_machine_gets_what_has_reached_everybody(publish) -> None:
    publish("0.2.0")
    publish("0.3.0", percent=50)

    assert selectors.to_install().version == "0.2.0"


def test_an_operator_widens_halts_and_withdraws(publish, actor, now) -> None:
    node = NodeFactory(agent_version="0.1.0")
    publish(percent=0)

    releases.roll_out(version="0.2.0", ring=ReleaseRing.ALL, percent=100, actor=actor, now=now)
    assert selectors.offer_for(node) == "0.2.0"
    releases.stop(version="0.2.0", withdraws=False, actor=actor, now=now)
    assert selectors.offer_for(node) == ""
    releases.roll_out(version="0.2.0", ring=ReleaseRing.ALL, percent=100, actor=actor, now=now)
    assert selectors.offer_for(node) == "0.2.0"
    releases.stop(version="0.2.0", withdraws=True, actor=actor, now=now)

    assert selectors.offer_for(node) == ""
    with pytest.raises(Conflict):
        releases.roll_out(version="0.2.0", ring=ReleaseRing.ALL, percent=100, actor=actor, now=now)
    with pytest.raises(NotFound):
        selectors.release("0.2.0")
    assert [event.event for event in AuditEvent.objects.order_by("id")] == [
        "agent_release.published", "agent_release.rolled_out", "agent_release.halted", "agent_release.rolled_out",
        "agent_release.withdrawn",
    ]  # fmt: skip


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_percentage_is_one(publish, actor, now, percent) -> None:
    publish(percent=10)

    with pytest.raises(InvalidValue):
        releases.roll_out(version="0.2.0", ring=ReleaseRing.ALL, percent=percent, actor=actor, now=now)

    assert AgentRelease.objects.get().percent == 10


def test_a_release_that_fails_on_three_nodes_reaches_no_fourth(publish, now) -> None:
    publish()
    nodes = NodeFactory.create_batch(3)
    assert selectors.offer_for(NodeFactory(agent_version="0.1.0")) == "0.2.0"

    for node in nodes[:2]:
        releases.take(node=node, claim=UpdateClaim("automatic", "0.2.0", "release_rolled_back"), now=now)
    assert AgentRelease.objects.get().state == ReleaseState.OFFERED
    releases.take(node=nodes[2], claim=UpdateClaim("automatic", "0.2.0", "release_rolled_back"), now=now)

    row = AgentRelease.objects.get()
    assert (row.state, row.state_code) == (ReleaseState.HALTED, "release_rolled_back")
    assert selectors.offer_for(NodeFactory(agent_version="0.1.0")) == ""
    assert AuditEvent.objects.order_by("-id")[0].actor == "system"


def test_a_pool_that_is_away_does_not_halt_a_release(publish, now) -> None:
    publish()

    for node in NodeFactory.create_batch(4):
        releases.take(node=node, claim=UpdateClaim("automatic", "0.2.0", "release_unreachable"), now=now)

    assert AgentRelease.objects.get().state == ReleaseState.OFFERED
    assert (selectors.spread()["0.2.0"].tried, selectors.spread()["0.2.0"].failed) == (4, 0)


def test_a_node_that_updates_by_hand_says_so_too(publish, agent, now) -> None:
    publish()
    agent.open(now)

    beat(agent, now, updates=UpdateClaim("held"))
    beat(agent, now, updates=UpdateClaim("manual"))

    assert selectors.held_back() == 0
    assert selectors.updates_of(node=Node.objects.get()).policy == "manual"


def test_how_far_a_release_has_come_is_counted(publish, now) -> None:
    publish()
    for code in ("", "", "release_rolled_back"):
        node = NodeFactory(agent_version="0.1.0" if code else "0.2.0")
        releases.take(node=node, claim=UpdateClaim("automatic", "0.2.0", code), now=now)
    releases.take(node=NodeFactory(), claim=UpdateClaim("held"), now=now)

    found = selectors.spread()

    assert (found["0.2.0"].running, found["0.2.0"].tried, found["0.2.0"].failed) == (2, 3, 1)
    assert selectors.held_back() == 1


def beat(agent, now, *, agent_version="0.1.0", updates=None) -> heartbeat.Answer:
    said = Beat(
        sent_at=now, agent_version=agent_version, wish="serve", host={}, gpus=agent.gpus, gpu_errors=(),
        deployments=(), updates=updates,
    )  # fmt: skip
    return heartbeat.record_heartbeat(token=agent.token, beat=said, address=agent.address, now=now)


def test_a_heartbeat_is_answered_with_the_release_unless_the_owner_holds_it_back(publish, agent, now) -> None:
    publish()
    agent.open(now)

    offered = beat(agent, now, updates=UpdateClaim("automatic")).release
    held = beat(agent, now, updates=UpdateClaim("held")).release
    manual = beat(agent, now, updates=UpdateClaim("manual")).release
    older_agent = beat(agent, now).release

    assert (offered, held, manual, older_agent) == ("0.2.0", "", "", "")


@pytest.mark.parametrize(
    ("version", "codes"), [("0.1.0", set()), ("0.2.9", set()), ("0.3.0", {"agent_ahead"}), ("1.0.0", {"agent_ahead"})]
)
def test_an_agent_too_far_away_is_told(agent, now, version, codes) -> None:
    agent.open(now)

    notices = beat(agent, now, agent_version=version).notices

    assert {notice.code for notice in notices} & {"agent_ahead", "agent_outdated"} == codes
