"""Two-factor sign-in: an authenticator app, recovery codes, and secrets that are not readable at rest."""

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.conf import settings as live_settings

from portal.web.sign_in.mfa import PoolMFAAdapter
from tests.world import World

PASSWORD = "right horse battery"


def code_for(secret: str) -> str:
    """Return the code an app shows now."""
    return format_hotp_value(hotp_value(secret, next(iter(yield_hotp_counters_from_time()))))


def enrol(world: World) -> str:
    """Let the customer's owner set up an app; return its secret."""
    owner = world.customer.owner
    owner.set_password(PASSWORD)
    owner.save()
    browser = world.client()
    browser.post("/accounts/login/", {"login": owner.email, "password": PASSWORD})
    browser.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = browser.get("/accounts/2fa/totp/activate/")
    secret = page.context["form"].secret
    response = browser.post("/accounts/2fa/totp/activate/", {"code": code_for(secret)})
    assert response.status_code == 302, response.context["form"].errors
    return secret


def test_sign_in_then_asks_for_the_code(world: World):
    secret = enrol(world)
    browser = world.client()

    first = browser.post("/accounts/login/", {"login": world.customer.owner.email, "password": PASSWORD})
    before = browser.get("/customer/")
    wrong = browser.post("/accounts/2fa/authenticate/", {"code": "000000"})

    assert first["location"].startswith("/accounts/2fa/authenticate/")
    assert before["location"].startswith("/accounts/login/")
    assert wrong.status_code == 200
    assert secret


def test_a_recovery_code_signs_in_once(world: World):
    enrol(world)
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()

    answers = []
    for _ in range(2):
        browser = world.client()
        browser.post("/accounts/login/", {"login": world.customer.owner.email, "password": PASSWORD})
        answers.append(browser.post("/accounts/2fa/authenticate/", {"code": codes[0]}).status_code)

    assert answers == [302, 200]


def test_the_secret_is_encrypted_at_rest(world: World):
    secret = enrol(world)

    stored = str(list(Authenticator.objects.values_list("data", flat=True)))

    assert secret not in stored


def test_an_older_secret_key_still_opens(settings):
    closed = PoolMFAAdapter().encrypt("totp secret")
    old = live_settings.SECRET_KEY

    settings.SECRET_KEY = "a new one" * 8
    settings.SECRET_KEY_FALLBACKS = [old]

    assert PoolMFAAdapter().decrypt(closed) == "totp secret"


@pytest.mark.parametrize("path", ["/accounts/2fa/", "/accounts/2fa/webauthn/add/"])
def test_passkeys_and_codes_are_offered(world: World, path: str):
    owner = world.customer.owner
    owner.set_password(PASSWORD)
    owner.save()
    browser = world.client()
    browser.post("/accounts/login/", {"login": owner.email, "password": PASSWORD})
    browser.post("/accounts/reauthenticate/", {"password": PASSWORD})

    assert browser.get(path).status_code == 200
