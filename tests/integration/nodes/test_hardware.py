"""What the portal makes of a node's hardware: the agent's exact reports of every kind of machine, as claims."""

import json
import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.api.agent.reading import beat_from
from portal.api.agent.serializers import HeartbeatRequest
from portal.nodes.models import EngineKind, Gpu
from portal.nodes.rules.hardware import GpusCannotServe
from portal.nodes.selectors import hardware
from portal.nodes.services import deployments, heartbeat
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, GpuFactory, NodeFactory
from tests.fakes.nvml import build, record
from tests.integration.nodes.agent import ready
from tests.world import World

WHOLE, CUT = "GPU-00000000-0000-4000-8000-0000000000a1", "GPU-00000000-0000-4000-8000-0000000000a2"
FIRST, SECOND = (f"GPU-00000000-0000-4000-8000-00000000000{number}" for number in (1, 2))


def tell(agent, profile, now, *, host=None, claims=()):
    """Send what an agent on such a machine sends, through the same validation."""
    report = json.loads((record.REPORTS / f"{profile}.json").read_text(encoding="utf-8"))
    message = HeartbeatRequest(
        data={
            "sent_at": now.isoformat(), "agent_version": "0.1.0", "wish": "serve", "host": host or {},
            "gpus": report["gpus"], "gpu_errors": report["errors"],
            "deployments": [
                {"deployment": claim.deployment, "state": claim.state, "running": claim.running} for claim in claims
            ],
        }
    )  # fmt: skip
    assert message.is_valid(), message.errors
    beat = beat_from(message.validated_data)
    return heartbeat.record_heartbeat(token=agent.token, beat=beat, address="203.0.113.5", now=now)


@pytest.fixture
def online(agent, now):
    agent.open(now)
    return agent


@pytest.fixture
def deployment(agent):
    return DeploymentFactory(node=agent.node, observed="ready", model__plain=True)


@pytest.mark.parametrize("profile", build.names())
def test_every_value_of_every_machine_is_plausible(online, now, profile):
    tell(online, profile, now)

    for gpu in Gpu.objects.all():
        assert "implausible" not in gpu.report["missing"].values(), gpu.report["missing"]
        told = next(
            one
            for one in json.loads((record.REPORTS / f"{profile}.json").read_text(encoding="utf-8"))["gpus"]
            if one["uuid"] == gpu.uuid
        )
        assert set(gpu.report["values"]) == set(told["values"]) - {"processes"}


@pytest.mark.parametrize(
    ("profile", "state", "code"),
    [
        ("rtx4090x2", "ready", "no_deployment"),
        ("mixed", "ready", "no_deployment"),
        ("vgpu", "ready", "no_deployment"),
        ("mig", "ready", "no_deployment"),
        ("off_the_bus", "ready", "no_deployment"),
        ("lost_while_read", "ready", "no_deployment"),
        ("hung", "ready", "no_deployment"),
        ("ecc", "degraded", "ecc_uncorrected"),
        ("gb10", "degraded", "unified_memory_unsupported"),
        ("wsl2", "degraded", "wsl"),
        ("old_driver", "degraded", "compute_capability_too_low"),
        ("jetson", "degraded", "jetson_unsupported"),
        ("driver_mismatch", "degraded", "nvml_library_mismatch"),
        ("container_lost", "degraded", "nvml_lost_in_container"),
        ("no_gpu", "degraded", "no_gpu"),
    ],
)
def test_a_node_stands_where_its_gpus_let_it(online, now, profile, state, code):
    tell(online, profile, now)

    online.node.refresh_from_db()
    assert (online.node.state, online.node.state_code) == (state, code)


@pytest.mark.parametrize("profile", ["driver_mismatch", "container_lost"])
def test_a_library_that_is_lost_ends_no_serving_and_no_gpu_is_gone(online, deployment, now, profile):
    tell(online, "rtx4090x2", now, claims=(ready(deployment),))

    answer = tell(online, profile, now + timedelta(seconds=15), claims=(ready(deployment, running=1),))

    code = json.loads((record.REPORTS / f"{profile}.json").read_text(encoding="utf-8"))["errors"][0]["code"]
    assert answer.state == "serving"
    assert list(Gpu.objects.order_by("index").values_list("is_present", "unread_code")) == [(True, code)] * 2
    assert [notice.code for notice in answer.notices] == [code]

    tell(online, "rtx4090x2", now + timedelta(seconds=30), claims=(ready(deployment),))
    assert list(Gpu.objects.values_list("unread_code", flat=True)) == ["", ""]


def test_a_lost_gpu_is_gone_for_a_reason_and_the_other_stays(online, now):
    tell(online, "rtx4090x2", now)

    tell(online, "off_the_bus", now + timedelta(seconds=15))

    rows = Gpu.objects.order_by("index").values_list("uuid", "is_present", "unread_code")
    assert list(rows) == [(FIRST, False, "gpu_not_found"), (SECOND, True, "")]


def test_a_gpu_that_must_not_work_is_marked_and_beside_it_the_good_one_is_not(online, now):
    tell(online, "mig", now)

    assert dict(Gpu.objects.values_list("uuid", "fault_code")) == {WHOLE: "", CUT: "mig_enabled"}


def test_slices_count_and_their_parent_does_not_count_again(online, now):
    tell(online, "mig", now)

    shown = hardware.hardware_of(node=online.node)

    assert shown.memory_bytes == 85_899_345_920 + 42_144_366_592 + 20_937_965_568
    assert [one.memory_bytes for one in shown.gpus[1].slices] == [42_144_366_592, 20_937_965_568]


def test_the_whole_is_unknown_where_a_part_is(online, now):
    tell(online, "rtx4090x2", now)
    Gpu.objects.filter(uuid=SECOND).update(memory_bytes=None)

    assert hardware.hardware_of(node=online.node).memory_bytes is None


@pytest.mark.parametrize(
    ("profile", "words"), [("gb10", "share one memory"), ("wsl2", "Windows Subsystem"), ("old_driver", "too old")]
)
def test_a_model_is_not_put_on_a_machine_that_cannot_serve_yet(online, actor, now, profile, words):
    tell(online, profile, now)
    wanted = {
        "node": online.node, "model": CatalogModelFactory(plain=True), "settings": {}, "max_concurrency": 4,
        "actor": actor, "now": now,
    }  # fmt: skip

    with pytest.raises(GpusCannotServe, match=words) as raised:
        deployments.deploy(engine=EngineKind.VLLM, **wanted)

    assert raised.value.fix
    assert not online.node.deployments.exists()


def test_a_model_is_put_beside_a_cut_gpu(online, actor, now):
    tell(online, "mig", now)

    deployments.deploy(
        node=online.node, model=CatalogModelFactory(plain=True), engine=EngineKind.VLLM, settings={},
        max_concurrency=4, actor=actor, now=now,
    )  # fmt: skip

    assert online.node.deployments.count() == 1


def text(response) -> str:
    assert response.status_code == 200, response.status_code
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.text))


def test_the_page_shows_each_reading_or_why_it_is_unknown(world: World, now):
    node = NodeFactory(provider=world.provider, load={
        "host": {"os": "Debian 12", "cpu_count": 64, "memory_bytes": 540 << 30, "virtualization": "none"},
        "host_missing": {"network_speed_mbits": "not_reported"},
        "gpu_errors": [{"code": "mig_enabled", "detail": CUT}],
    })  # fmt: skip
    for gpu in json.loads((record.REPORTS / "mig.json").read_text(encoding="utf-8"))["gpus"]:
        keep = {name: gpu[name] for name in ("uuid", "index", "name", "memory_bytes")}
        GpuFactory(
            node=node, **keep, report={name: gpu[name] for name in ("values", "missing", "instances")},
            fault_code="mig_enabled" if gpu["uuid"] == CUT else "",
        )  # fmt: skip

    page = text(world.client(world.supplier.owner).get(f"/provider/nodes/{node.public_id}/"))

    for words in (
        "Debian 12, 64 threads, 540.0 GiB",
        "The GPU is partitioned (MIG)",
        "Gets no new work: The GPU is partitioned (MIG)",
        "MIG 3g.40gb",
        "MIG-11111111-0000-5000-8000-000000000001",
        "42 multiprocessors; its memory counts in place of the whole GPU's",
        "139 GiB in all.",
        "Serial number 1564720004631",
        "Held back by idle",
        "Power 61 W",
        "NVLinks up 12",
        "Uncorrected errors 0",
        "Fan unknown: The GPU does not report this",
        "Processes unknown: Not told",
        "Link speed unknown: Not reported",
        "Hypervisor none",
        "Kernel unknown: Not told",
    ):
        assert words in page, words


def test_a_gpu_that_cannot_be_read_shows_no_old_reading_as_new(world: World):
    node = NodeFactory(provider=world.provider)
    GpuFactory(
        node=node, unread_code="nvml_library_mismatch", report={"values": {"temperature_c": 41, "power_mw": 28_500}}
    )

    page = world.client(world.supplier.owner).get(f"/provider/nodes/{node.public_id}/").text
    table = text_of(page, "GPUs of this node")

    assert "cannot be read" in table
    assert "The driver was updated under a running system" in table
    assert "41" not in table
    assert "28 W" not in table


def text_of(page: str, label: str) -> str:
    found = re.search(rf'aria-label="{label}".*?</table>', page, re.DOTALL)
    assert found is not None
    return re.sub(r"<[^>]+>", " ", found[0])


def test_the_operator_sees_who_else_reports_the_same_gpu_and_the_provider_does_not(world: World):
    mine, other = NodeFactory(provider=world.provider), NodeFactory()
    GpuFactory(node=mine, uuid="GPU-twin")
    GpuFactory(node=other, uuid="GPU-twin")

    operator = text(world.client(world.operator).get(f"/operator/nodes/{mine.public_id}/"))
    provider = text(world.client(world.supplier.owner).get(f"/provider/nodes/{mine.public_id}/"))

    assert "Other nodes report this GPU too" in operator
    assert other.public_id in operator
    assert "Other nodes report this GPU too" not in provider
    assert other.public_id not in provider


def test_the_same_again_writes_nothing_but_the_time(online, now):
    tell(online, "a100", now)
    before = Gpu.objects.get()

    with CaptureQueriesContext(connection) as asked:
        tell(online, "a100", now + timedelta(seconds=15))

    after = Gpu.objects.get()
    assert (after.report, after.first_seen_at) == (before.report, before.first_seen_at)
    assert after.last_seen_at == now + timedelta(seconds=15)
    written = [one["sql"] for one in asked if 'INTO "nodes_gpu"' in one["sql"] or 'UPDATE "nodes_gpu"' in one["sql"]]
    assert len(written) == 1
    assert "report" not in written[0]


def test_a_gpu_that_can_be_read_again_is_what_it_was(online, now):
    tell(online, "rtx4090x2", now)
    tell(online, "driver_mismatch", now + timedelta(seconds=15))

    tell(online, "rtx4090x2", now + timedelta(seconds=30))

    assert set(Gpu.objects.values_list("unread_code", "is_present", "last_seen_at")) == {
        ("", True, now + timedelta(seconds=30))
    }
