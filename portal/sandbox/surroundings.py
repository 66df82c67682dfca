"""Where the parts of a demo are and what their processes are told; also for programs beside the supervisor."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from portal.sandbox.ground import Ground

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"


class CommandFailed(RuntimeError):
    """A step of the demo ended with an error; the message holds what it said."""


class Surroundings:
    """The addresses and the environment of the pool in one folder."""

    def __init__(self, ground: Ground, *, ports: Mapping[str, int], settings: Mapping[str, str]) -> None:
        self.ground = ground
        self.folder = ground.folder
        self.ports = dict(ports)
        self._settings = dict(settings)

    @property
    def public_url(self) -> str:
        """Return where the portal is."""
        return f"http://{HOST}:{self.ports['portal']}"

    @property
    def gateway_url(self) -> str:
        """Return where /v1 is."""
        return f"http://{HOST}:{self.ports['gateway']}"

    @property
    def stripe_url(self) -> str:
        """Return where the Stripe stand-in is."""
        return f"http://{HOST}:{self.ports['stripe']}"

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of our children."""
        ours = {
            **self.ground.secrets(),
            "DJANGO_SETTINGS_MODULE": "portal.settings.local",
            "POOLHOUSE_MODE": "local",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}",
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "DATABASE_URL": f"postgresql://poolhouse@{HOST}:{self.ports['postgres']}/poolhouse",
            "DATABASE_DIRECT_URL": f"postgresql://poolhouse@{HOST}:{self.ports['postgres']}/poolhouse",
            "REDIS_URL": f"redis://{HOST}:{self.ports['valkey']}/0",
            "PUBLIC_URL": self.public_url,
            "GATEWAY_URL": self.gateway_url,
            "STRIPE_API_BASE": self.stripe_url,
            "EMAIL_URL": f"file://{self.folder / 'mail'}",
            **self._settings,
        }
        inherited = {name: value for name, value in os.environ.items() if name.removesuffix("_FILE") not in ours}
        return inherited | ours

    def run(self, argv: list[str], *, timeout_s: float, stdin: str = "") -> str:
        """Run one of our Python programs to its end and return what it printed. Raises CommandFailed."""
        try:
            done = subprocess.run(
                [sys.executable, *argv],
                env=self.environ,
                cwd=ROOT,
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"{' '.join(argv)}: not done after {timeout_s:.0f} s") from error
        if done.returncode != 0:
            raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr.strip()[-3000:]}")
        return done.stdout
