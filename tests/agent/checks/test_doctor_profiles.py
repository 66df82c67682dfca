"""What `doctor` prints on every profile of the stub, to the letter."""

from pathlib import Path

import pytest

from tests.agent.checks import profiles
from tests.fakes.nvml import build

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build.build(tmp_path_factory.mktemp("nvml")))


@pytest.mark.parametrize("profile", build.names())
async def test_doctor_says_exactly_this(profile: str, library: str, tmp_path: Path) -> None:
    report = await profiles.report_of(profile, library=library, folder=tmp_path)

    said = await profiles.doctor_says(report, folder=tmp_path)

    assert said == (profiles.FOLDER / f"{profile}.txt").read_text(encoding="utf-8")


def test_every_profile_has_its_text() -> None:
    assert sorted(file.stem for file in profiles.FOLDER.glob("*.txt")) == build.names()
