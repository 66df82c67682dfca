"""The environment is read strictly: a bad value stops the start and is named."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings import env


def test_a_setting_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setenv("SOME_SECRET_FILE", str(tmp_path / "key"))

    assert env.text("SOME_SECRET") == "from-a-file"


def test_a_setting_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_SECRET", "here")
    monkeypatch.setenv("SOME_SECRET_FILE", str(tmp_path / "key"))

    with pytest.raises(ImproperlyConfigured, match="SOME_SECRET and SOME_SECRET_FILE are both set"):
        env.text("SOME_SECRET")


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_SECRET_FILE", str(tmp_path / "absent"))

    with pytest.raises(ImproperlyConfigured, match="SOME_SECRET_FILE: cannot read"):
        env.text("SOME_SECRET")


@pytest.mark.parametrize(("value", "said"), [("many", "whole number"), ("3", "use 1 to 2"), ("-1", "use 1 to 2")])
def test_a_number_out_of_bounds_is_named(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    monkeypatch.setenv("PAYOUT_APPROVERS", value)

    with pytest.raises(ImproperlyConfigured, match=f"PAYOUT_APPROVERS.*{said}"):
        env.integer("PAYOUT_APPROVERS", 1, low=1, high=2)


def test_an_unknown_word_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNUP", "maybe")

    with pytest.raises(ImproperlyConfigured, match="SIGNUP='maybe': use one of closed, invite, open"):
        env.choice("SIGNUP", "open", {"open", "invite", "closed"})


@pytest.mark.parametrize(("value", "expected"), [("yes", True), ("0", False), ("ON", True), ("", False)])
def test_yes_and_no_in_their_usual_words(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("SOME_SWITCH", value)

    assert env.boolean("SOME_SWITCH", default=True) is expected


def test_a_half_yes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SWITCH", "perhaps")

    with pytest.raises(ImproperlyConfigured, match="SOME_SWITCH='perhaps': use 1 or 0"):
        env.boolean("SOME_SWITCH", default=True)


@pytest.mark.parametrize("value", ["pool.example", "ftp://pool.example", "https://"])
def test_a_url_must_be_absolute(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PUBLIC_URL", value)

    with pytest.raises(ImproperlyConfigured, match="PUBLIC_URL"):
        env.url("PUBLIC_URL")


def test_only_postgresql_is_a_database() -> None:
    with pytest.raises(ImproperlyConfigured, match="only postgresql:// is supported"):
        env.database("sqlite:///pool.db")


def test_a_database_url_becomes_djangos_dictionary() -> None:
    found = env.database("postgresql://pool:p%40ss@db.example:6432/poolhouse")

    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db.example", "6432", "poolhouse")
    assert (found["USER"], found["PASSWORD"]) == ("pool", "p@ss")


def test_a_trusted_proxy_must_be_an_address_or_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUSTED_PROXIES", "10.0.0.0/8, proxy.example")

    with pytest.raises(ImproperlyConfigured, match=r"TRUSTED_PROXIES: 'proxy.example' is no IP address"):
        env.networks("TRUSTED_PROXIES")
