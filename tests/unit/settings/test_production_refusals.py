"""Production does not start while something that it needs is missing or unsound."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SOUND = {
    "SECRET_KEY": "k" * 60,
    "DATABASE_URL": "postgresql://pool@db.example/pool",
    "REDIS_URL": "redis://valkey.example/0",
    "PUBLIC_URL": "https://pool.example",
    "GATEWAY_URL": "https://api.pool.example",
    "RECEIPT_SIGNING_KEY": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
    "ALLOWED_HOSTS": "pool.example",
    "EMAIL_URL": "smtp://user:password@mail.example:587",
    "STRIPE_API_KEY": "sk_live_1",
    "STRIPE_WEBHOOK_SECRET": "whsec_1",
    "STRIPE_CONNECT_WEBHOOK_SECRET": "whsec_2",
    "STRIPE_EVENTS_SECRET": "whsec_3",
}


def start(module: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Load the settings module in a process of its own, with nothing else in its environment."""
    return subprocess.run(
        [sys.executable, "-c", f"import {module} as s; print('started', len(s.INSTALLED_APPS))"],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("module", ["portal.settings.production", "portal.settings.gateway"])
def test_a_sound_environment_starts(module: str) -> None:
    begun = start(module, SOUND)

    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.startswith("started")


@pytest.mark.parametrize(
    "name",
    ["SECRET_KEY", "DATABASE_URL", "REDIS_URL", "PUBLIC_URL", "GATEWAY_URL", "RECEIPT_SIGNING_KEY", "ALLOWED_HOSTS"],
)
def test_a_missing_setting_is_named(name: str) -> None:
    begun = start("portal.settings.production", {key: value for key, value in SOUND.items() if key != name})

    assert begun.returncode == 1
    assert f"ImproperlyConfigured: not set: {name} (" in begun.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"SECRET_KEY": "short"}, "SECRET_KEY is shorter than 50"),
        ({"PUBLIC_URL": "http://pool.example"}, "PUBLIC_URL='http://pool.example': use https"),
        ({"RECEIPT_SIGNING_KEY": "c2hvcnQ="}, "RECEIPT_SIGNING_KEY holds 5 bytes"),
        ({"RECEIPT_SIGNING_KEY": "no base64!"}, "RECEIPT_SIGNING_KEY is not base64"),
        ({"ALLOWED_HOSTS": "*"}, "ALLOWED_HOSTS=*"),
        ({"EMAIL_URL": "console:"}, "EMAIL_URL: console and memory lose mail"),
        ({"STRIPE_EVENTS_SECRET": ""}, "STRIPE_EVENTS_SECRET is not"),
        ({"STRIPE_API_BASE": "http://127.0.0.1:4242"}, "STRIPE_API_BASE='http://127.0.0.1:4242' with a live key"),
        ({"DATABASE_URL": "mysql://db"}, "only postgresql:// is supported"),
        ({"SIGNUP": "maybe"}, "SIGNUP='maybe'"),
        ({"EMAIL_URL": "pigeon://loft"}, "EMAIL_URL: scheme 'pigeon'"),
    ],
)
def test_an_unsound_setting_is_named(changed: dict[str, str], said: str) -> None:
    begun = start("portal.settings.production", SOUND | changed)

    assert begun.returncode == 1
    assert said in begun.stderr


def test_a_test_key_may_speak_to_a_stand_in() -> None:
    begun = start(
        "portal.settings.production",
        SOUND | {"STRIPE_API_KEY": "sk_test_1", "STRIPE_API_BASE": "http://127.0.0.1:4242"},
    )

    assert begun.returncode == 0, begun.stderr


def test_the_sandbox_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(
        "from portal.settings.production import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'portal.sandbox']\n"
    )
    begun = subprocess.run(
        [sys.executable, "-c", "import django; django.setup()"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT}:{tmp_path}",
            "DJANGO_SETTINGS_MODULE": "ours",
            **SOUND,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert begun.returncode == 1
    assert "the sandbox never runs in production" in begun.stderr


def test_a_gateway_needs_no_mail_and_no_stripe() -> None:
    without = {key: value for key, value in SOUND.items() if not key.startswith(("STRIPE", "EMAIL", "ALLOWED"))}

    assert start("portal.settings.gateway", without).returncode == 0


def test_a_gateway_without_its_urls_starts_only_where_it_is_told_to_be_local() -> None:
    assert start("portal.settings.gateway", {}).returncode == 1
    assert start("portal.settings.gateway", {"POOLHOUSE_MODE": "local"}).returncode == 0
