"""Runs wrk and reads what it says."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1_000.0, "m": 60_000.0}


class LoadFailed(RuntimeError):
    """wrk did not run, or the program under test answered with errors."""


@dataclass(frozen=True)
class Request:
    """What is asked of a gateway, again and again."""

    key: str
    model: str
    is_stream: bool = False

    def body(self) -> dict[str, object]:
        """Return the request's JSON."""
        body: dict[str, object] = {
            "model": self.model,
            "messages": [{"role": "user", "content": "Say hello to the nice people."}],
            "max_tokens": 128,
        }
        if self.is_stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def script(self) -> str:
        """Return wrk's script."""
        lines = (
            'wrk.method = "POST"',
            'wrk.path = "/v1/chat/completions"',
            'wrk.headers["content-type"] = "application/json"',
            f"wrk.headers['authorization'] = 'Bearer {self.key}'",
            f"wrk.body = [[{json.dumps(self.body(), separators=(',', ':'))}]]",
        )
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Load:
    """What wrk saw."""

    requests: int
    requests_a_second: float
    p50_ms: float
    p99_ms: float
    errors: int


def run(url: str, request: Request, *, connections: int, seconds: float, folder: Path) -> Load:
    """Ask over so many connections for so long. Raises LoadFailed."""
    script = folder / "request.lua"
    script.write_text(request.script(), encoding="utf-8")
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "10s", "--latency"]
    done = subprocess.run([*argv, "-s", str(script), url], capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadFailed(f"wrk: {(done.stderr or done.stdout).strip()[-400:]}")
    return parse(done.stdout)


def parse(text: str) -> Load:
    """Read wrk's report. Raises LoadFailed."""
    total = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    if total is None or rate is None:
        raise LoadFailed(f"wrk's report has no rate: {text[-400:]}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    socket = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    errors = int(bad[1]) if bad else 0
    errors += sum(int(count) for count in socket.groups()) if socket else 0
    return Load(int(total[1]), float(rate[1]), _percentile_ms(text, 50), _percentile_ms(text, 99), errors)


def _percentile_ms(text: str, percent: int) -> float:
    found = re.search(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)\s*$", text, re.MULTILINE)
    return float(found[1]) * _UNITS_MS[found[2]] if found else 0.0
