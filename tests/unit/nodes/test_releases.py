"""Releases: which nodes a roll-out reaches, when it stops by itself, and what counts as a manifest."""

import json

import pytest

from portal.nodes.rules import releases as rules
from tests.factories.releases import OTHER_KEY, PUBLIC_KEY, files

NODES = [f"node_{number}" for number in range(1000)]


def reached(percent: int, *, version: str = "0.2.0", ring: str = "all", node_class: str = "community") -> set[str]:
    return {
        node
        for node in NODES
        if rules.is_offered(node_class=node_class, node=node, version=version, ring=ring, percent=percent)
    }


def test_a_percentage_reaches_about_so_many_and_whoever_was_reached_stays() -> None:
    ten, fifty = reached(10), reached(50)

    assert 70 <= len(ten) <= 130
    assert 450 <= len(fifty) <= 550
    assert ten < fifty < reached(100) == set(NODES)
    assert reached(0) == set()


def test_another_release_begins_with_other_nodes() -> None:
    assert reached(10) != reached(10, version="0.3.0")


@pytest.mark.parametrize(
    ("ring", "classes"),
    [
        ("house", {"house"}),
        ("contracted", {"house", "contracted"}),
        ("all", {"house", "contracted", "community", "unidentified"}),
    ],
)
def test_a_ring_holds_the_classes_within_it(ring: str, classes: set[str]) -> None:
    every = ("house", "contracted", "community", "unidentified")

    assert {one for one in every if reached(100, ring=ring, node_class=one)} == classes


@pytest.mark.parametrize(
    ("failed", "tried", "halts"),
    [(2, 2, False), (3, 3, True), (3, 15, True), (3, 16, False), (10, 50, True), (10, 51, False)],
)
def test_a_release_is_halted_after_three_failures_that_are_a_fifth(failed: int, tried: int, *, halts: bool) -> None:
    assert rules.must_halt(failed=failed, tried=tried) is halts


@pytest.mark.parametrize(
    ("agent", "code"),
    [
        ("1.4.0", ""), ("1.4.9", ""), ("1.3.0", ""), ("1.5.2", ""), ("1.2.9", "agent_outdated"),
        ("1.6.0", "agent_ahead"), ("0.9.0", "agent_outdated"), ("2.4.0", "agent_ahead"),
        ("", ""), ("1.4", ""), ("dev", ""),
    ],
)  # fmt: skip
def test_one_minor_version_apart_is_near_enough(agent: str, code: str) -> None:
    assert rules.skew_code(agent=agent, portal="1.4.1") == code


def test_versions_are_ordered_by_number() -> None:
    ordered = ["0.1.0", "0.1.9", "0.1.10", "0.2.0", "0.10.0", "1.0.0", "10.0.0"]

    assert sorted(ordered, key=rules.version_order) == ordered


@pytest.mark.parametrize("version", ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-rc1", "1.2.3\n", "1.2.9999999"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(rules.ReleaseInvalid):
        rules.version_order(version)


def test_a_manifest_is_read_and_its_files_are_held_to_it() -> None:
    made = files("0.2.0", wheel=b"wheel")

    read = rules.read_manifest(made.manifest)

    assert (read.version, read.protocol, read.wheel.size) == ("0.2.0", 1, 5)
    rules.require_content(read.wheel, b"wheel")
    with pytest.raises(rules.ReleaseInvalid):
        rules.require_content(read.wheel, b"wheeL")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"{}", b'{"format": 2}',
        files(format=2).manifest,
        files(protocol="1").manifest,
        files(files={"wheel": {}}).manifest,
        json.dumps({**json.loads(files().manifest), "version": "x"}).encode(),
    ],
)  # fmt: skip
def test_anything_else_is_no_manifest(raw: bytes) -> None:
    with pytest.raises(rules.ReleaseInvalid):
        rules.read_manifest(raw)


def test_only_the_releases_own_key_signs() -> None:
    made, forged = files(), files(key=OTHER_KEY)

    rules.require_signature(manifest=made.manifest, signature=made.signature, public_key=PUBLIC_KEY)
    for manifest, signature in ((forged.manifest, forged.signature), (made.manifest + b" ", made.signature)):
        with pytest.raises(rules.ReleaseSignatureInvalid):
            rules.require_signature(manifest=manifest, signature=signature, public_key=PUBLIC_KEY)
