"""The nodes of a simulated fleet: who is drawn, how they live, what their machines report."""

import asyncio

import pytest
from poolhouse_agent.errors import ConfigError, PortalError
from poolhouse_agent.simulate import behaviours, gpus
from poolhouse_agent.simulate.fleet import kinds, mix
from poolhouse_agent.simulate.fleet.conditions import Conditions, Weather
from poolhouse_agent.simulate.fleet.figures import Figures, lines, quantile
from poolhouse_agent.simulate.fleet.inventory import FleetInventory
from poolhouse_agent.simulate.fleet.kinds import KINDS, Kind, Rhythm
from poolhouse_agent.simulate.fleet.link import Link

from tests.fakes.pool import Pool


def counts(drawn: list[Kind]) -> dict[str, int]:
    return {name: sum(kind.name == name for kind in drawn) for name in sorted({kind.name for kind in drawn})}


def test_the_draw_keeps_the_shares_to_the_node() -> None:
    assert counts(mix.draw(mix.parse("healthy=8,flapping=1,slow=1"), nodes=1000, seed=1)) == {
        "flapping": 100,
        "healthy": 800,
        "slow": 100,
    }
    assert counts(mix.draw(mix.parse("healthy=2,slow=1"), nodes=10, seed=1)) == {"healthy": 7, "slow": 3}


def test_the_same_seed_draws_the_same_fleet() -> None:
    weights = mix.parse(mix.DEFAULT)

    first, again, other = (mix.draw(weights, nodes=100, seed=seed) for seed in (7, 7, 8))

    assert first == again
    assert first != other
    assert counts(first) == counts(other)


@pytest.mark.parametrize("text", ["", "healthy=x", "nobody=1", "healthy=0", "healthy=-1"])
def test_a_mix_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        mix.parse(text)

    assert refused.value.code == "config_invalid"


def test_every_kind_is_made_of_known_gpus_and_behaviours() -> None:
    for kind in KINDS.values():
        assert behaviours.find(kind.behaviour)
        assert all(gpus.parse(profile) for profile in kind.gpus)
    assert set(mix.parse(mix.DEFAULT)) == set(KINDS)


def test_a_rhythm_says_when_it_changes() -> None:
    rhythm = Rhythm(on_s=10.0, off_s=5.0)

    assert [rhythm.is_on(at) for at in (0.0, 9.9, 10.0, 14.9, 15.0)] == [True, True, False, False, True]
    assert [rhythm.next_change_s(at) for at in (0.0, 12.0, 16.0)] == [10.0, 3.0, 9.0]


async def inventory(kind: str) -> tuple[Conditions, FleetInventory]:
    conditions = Conditions(kinds.find(kind), Weather(), seed="1")
    return conditions, FleetInventory(conditions, node="node_1")


async def test_a_gpu_falls_off_the_bus_and_the_others_stay() -> None:
    conditions, found = await inventory("lost-gpu")
    whole = found.latest.gpus

    conditions.weather.began_at -= 60.0
    report = await found.read()

    assert report.gpus == whole[:-1]
    assert report.errors == ({"code": "gpu_is_lost", "detail": whole[-1]["uuid"]},)


async def test_slices_have_ids_and_memory_of_their_own() -> None:
    _, found = await inventory("mig")

    slices = [one for gpu in found.latest.gpus for one in gpu["instances"]]
    assert len({one["uuid"] for one in slices}) == len(slices) > 0
    assert {error["code"] for error in found.latest.errors} == {"mig_enabled"}


async def test_nothing_reaches_the_portal_in_a_silence(pool: Pool) -> None:
    weather, figures = Weather(), Figures()
    conditions = Conditions(kinds.find("healthy"), weather, seed="")
    async with Link(pool.server, transport=None, conditions=conditions, figures=figures) as link:
        pool._bearers.add("t")
        await link.post("/agent/v1/heartbeat", {}, bearer="t")
        weather.turn()
        with pytest.raises(PortalError) as refused:
            await link.post("/agent/v1/session/challenge", {"node": pool.node})
        weather.turn()
        await link.post("/agent/v1/session/challenge", {"node": pool.node})
        await link.post("/agent/v1/heartbeat", {}, bearer="t")

    calm = figures.calm()
    assert calm is not None
    assert (calm["count"], figures.routes()["heartbeat"]["count"]) == (1, 2)
    assert refused.value.code == "portal_unreachable"
    assert (figures.withheld, figures.routes()["session/challenge"]["count"]) == (1, 1)


async def test_a_clock_that_is_ahead_stamps_what_is_sent(pool: Pool) -> None:
    pool._bearers.add("t")
    conditions = Conditions(kinds.find("skewed"), Weather(), seed="")
    async with Link(pool.server, transport=None, conditions=conditions, figures=Figures()) as link:
        await link.post("/agent/v1/heartbeat", {"sent_at": "2026-01-01T00:00:00+00:00"}, bearer="t")

    assert pool.heartbeats == [{"sent_at": "2026-01-01T01:00:00+00:00"}]


async def test_an_owner_who_wants_the_machine_back_gets_it() -> None:
    conditions = Conditions(kinds.find("quiet"), Weather(pace=10.0), seed="1")
    assert conditions.is_owner_away

    await asyncio.sleep(0)
    conditions.weather.began_at -= 9.0  # ninety seconds of the node's life

    assert not conditions.is_owner_away


def test_the_report_reads_as_lines() -> None:
    report = {
        "elapsed_s": 61.0,
        "is_silenced": True,
        "nodes": {"total": 2, "tunnels": 1, "ended": 1, "by_kind": {"healthy": {"": 1, "serving": 1}}},
        "routes": {"heartbeat": {"count": 9, "p50_ms": 4.0, "p99_ms": 8.0, "max_ms": 9.0}},
        "failures": {"heartbeat portal_timeout": 1},
        "withheld": 3,
    }

    assert lines(report) == [
        "61 s: 2 nodes, 1 tunnels, 1 gone, all messages to the portal withheld",
        "  healthy     1 not heard of yet, 1 serving",
        "  heartbeat                9 answers   p50     4.0 ms   p99     8.0 ms",
        "  failed: 1 x heartbeat portal_timeout",
    ]


def test_heartbeats_are_told_minute_by_minute() -> None:
    figures = Figures()
    figures.note("session", 0.5, elapsed_s=1.0, is_calm=True)
    for seconds, elapsed_s in [(0.01, 5.0), (0.02, 59.9), (0.03, 130.0)]:
        figures.note("heartbeat", seconds, elapsed_s=elapsed_s, is_calm=elapsed_s < 100.0)

    assert figures.minutes() == [
        {"minute": 0, "count": 2, "p50_ms": 10.0, "p99_ms": 20.0, "max_ms": 20.0},
        {"minute": 2, "count": 1, "p50_ms": 30.0, "p99_ms": 30.0, "max_ms": 30.0},
    ]
    assert figures.calm() == {"count": 2, "p50_ms": 10.0, "p99_ms": 20.0, "max_ms": 20.0}
    assert Figures().calm() is None


def test_a_quantile_is_a_value_that_was_seen() -> None:
    values = [float(number) for number in range(1, 101)]

    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([3.0], 0.99)) == (50.0, 99.0, 3.0)
