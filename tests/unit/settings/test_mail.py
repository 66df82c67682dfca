"""EMAIL_URL becomes Django's mail settings."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings import mail


def test_smtp_with_starttls() -> None:
    found = mail.settings("smtp://pool:p%40ss@mail.example")

    assert (found["EMAIL_HOST"], found["EMAIL_PORT"]) == ("mail.example", 587)
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("pool", "p@ss")
    assert (found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (True, False)


def test_smtps_uses_tls_from_the_first_byte() -> None:
    found = mail.settings("smtps://mail.example:2465")

    assert (found["EMAIL_PORT"], found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (2465, False, True)


@pytest.mark.parametrize("value", ["smtp://", "file:", "mail.example", "smtp://mail.example:port"])
def test_what_cannot_be_used_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL"):
        mail.settings(value)
