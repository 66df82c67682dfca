"""`python -m portal.sandbox.checks`: the checks that need Django and a database, on servers of their own."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from portal.sandbox import servers

ROOMS = (
    "accounts", "audit", "billing", "catalog", "metering", "nodes", "notifications", "payouts", "providers", "trust",
    "webhooks",
)  # fmt: skip
# Raw SQL of tables that the same release creates: no older code runs against them.
FIRST_RELEASE = ("0002_append_only", "0002_usage_record")
LINT = ("lintmigrations", "--warnings-as-errors", "--quiet", "ok", "ignore", "--include-apps", *ROOMS)
COMMANDS = (
    ("check", "--fail-level", "WARNING"),
    ("makemigrations", "--check", "--dry-run"),
    ("migrate", "--verbosity", "0"),
    (*LINT, "--ignore-name", *FIRST_RELEASE),
    ("openapi", "--check"),
)
ARCHITECTURE = ("-m", "pytest", "tests/architecture", "-p", "no:randomly")


def main() -> int:
    """Run each check, all of them even where one fails; return how many failed."""
    with tempfile.TemporaryDirectory(prefix="poolhouse-checks-") as folder:
        started: list[servers.Server] = []
        environ = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings.local"}
        try:
            if not environ.get("DATABASE_URL"):
                started.append(servers.start_postgres(Path(folder) / "postgres", is_durable=False))
                environ["DATABASE_URL"] = servers.create_database(started[-1].url, "poolhouse")
            if not environ.get("REDIS_URL"):
                started.append(servers.start_valkey(Path(folder) / "valkey"))
                environ["REDIS_URL"] = started[-1].url
            commands = [("manage.py", *arguments) for arguments in COMMANDS]
            return sum(_fails([sys.executable, *argv], environ) for argv in [*commands, ARCHITECTURE])
        finally:
            for server in started:
                server.stop()


def _fails(argv: list[str], environ: dict[str, str]) -> bool:
    name = " ".join(argv[1:])
    print(f"-- {name}", flush=True)
    code = subprocess.run(argv, env=environ, check=False).returncode
    if code:
        print(f"-- FAILED: {name}", flush=True)
    return code != 0


if __name__ == "__main__":
    raise SystemExit(1 if main() else 0)
