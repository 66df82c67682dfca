"""A release counts only when the pinned key signed exactly what came."""

import base64
import json

import pytest
from poolhouse_agent.errors import UpdateError
from poolhouse_agent.updates import manifest

from tests.agent.updates.world import FORGER, PUBLIC_KEY, Made

GOOD = Made("0.2.0", wheel=b"wheel")


def test_a_signed_manifest_is_read() -> None:
    read = manifest.read(GOOD.manifest, signature=GOOD.signature, public_key=PUBLIC_KEY)

    assert (read.version, read.wheel.name) == ("0.2.0", GOOD.wheel_name)
    read.wheel.require(b"wheel")


@pytest.mark.parametrize(
    ("release", "raw", "signature", "key", "code"),
    [
        (GOOD, None, None, "", "release_key_missing"),
        (Made("0.2.0", wheel=b"wheel", key=FORGER), None, None, PUBLIC_KEY, "release_signature_invalid"),
        (GOOD, GOOD.manifest + b" ", None, PUBLIC_KEY, "release_signature_invalid"),
        (GOOD, None, "", PUBLIC_KEY, "release_signature_invalid"),
        (GOOD, None, "not base64!", PUBLIC_KEY, "release_signature_invalid"),
        (GOOD, None, base64.b64encode(b"\0" * 64).decode(), PUBLIC_KEY, "release_signature_invalid"),
        (GOOD, None, None, base64.b64encode(b"\0" * 31).decode(), "release_signature_invalid"),
        (Made("0.2.0", changes={"format": 2}), None, None, PUBLIC_KEY, "release_invalid"),
        (Made("0.2.0", changes={"protocol": 2}), None, None, PUBLIC_KEY, "release_invalid"),
        (Made("0.2.0", changes={"version": "../../etc"}), None, None, PUBLIC_KEY, "release_invalid"),
        (Made("0.2.0", changes={"files": {}}), None, None, PUBLIC_KEY, "release_invalid"),
    ],
)
def test_anything_else_is_refused(
    release: Made, raw: bytes | None, signature: str | None, key: str, code: str
) -> None:  # fmt: skip
    raw = release.manifest if raw is None else raw

    with pytest.raises(UpdateError) as caught:
        manifest.read(raw, signature=release.signature if signature is None else signature, public_key=key)

    assert caught.value.code == code
    assert caught.value.fix


def test_a_signature_for_something_else_is_none_for_a_release() -> None:
    bare = base64.b64encode(Made("0.2.0").key.sign(GOOD.manifest)).decode()

    with pytest.raises(UpdateError, match="release_signature_invalid"):
        manifest.read(GOOD.manifest, signature=bare, public_key=PUBLIC_KEY)


@pytest.mark.parametrize("name", ["../x.whl", "/x.whl", "", "a b", "x" * 200])
def test_a_file_name_stays_a_file_name(name: str) -> None:
    files = json.loads(GOOD.manifest)["files"]
    files["wheel"]["name"] = name
    release = Made("0.2.0", changes={"files": files})

    with pytest.raises(UpdateError, match="release_invalid"):
        manifest.read(release.manifest, signature=release.signature, public_key=PUBLIC_KEY)


@pytest.mark.parametrize("content", [b"wheeL", b"wheel+", b""])
def test_another_content_is_not_the_file(content: bytes) -> None:
    read = manifest.read(GOOD.manifest, signature=GOOD.signature, public_key=PUBLIC_KEY)

    with pytest.raises(UpdateError, match="release_invalid"):
        read.wheel.require(content)


@pytest.mark.parametrize(
    ("wanted", "present", "code"),
    [("0.3.0", "0.1.0", "release_invalid"), ("0.2.0", "0.2.0", "release_older"), ("0.2.0", "0.10.0", "release_older")],
)
def test_another_or_an_older_version_is_refused(wanted: str, present: str, code: str) -> None:
    read = manifest.read(GOOD.manifest, signature=GOOD.signature, public_key=PUBLIC_KEY)

    with pytest.raises(UpdateError) as caught:
        manifest.require_newer(read, wanted=wanted, present=present)

    assert caught.value.code == code
