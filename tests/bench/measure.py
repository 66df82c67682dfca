"""Takes one program's figures: the same load, the same order, the same cores for all."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import processes, wrk
from tests.bench.figures import TOKENS_A_STREAM, Profile, Sample
from tests.bench.wrk import Load, Request

STREAMS = 128
_BUSY = 32


@dataclass(frozen=True)
class Subject:
    """A program under test; `batch` makes its nodes send so many events together, where it has a say in that."""

    url: str
    pid: int
    request: Request
    batch: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Bench:
    """How long each measurement takes, and where its files lie."""

    folder: Path
    seconds: float = 6.0

    def profile(self, subject: Subject, *, direct_p50_ms: float) -> Profile:
        """Return all figures of the subject."""
        plain, streamed = subject.request, replace(subject.request, is_stream=True)
        self.load(subject, plain, connections=8, seconds=self.seconds / 3)
        busy, cost = self.load(subject, plain, connections=_BUSY)
        alone, _ = self.load(subject, plain, connections=1, seconds=self.seconds / 2)
        unbatched, token = self.stream_cost(subject, streamed)
        errors = busy.errors + alone.errors + unbatched.errors
        batched = token
        if subject.batch is not None:
            subject.batch(4)
            gathered, batched = self.stream_cost(subject, streamed)
            errors += gathered.errors
        return Profile(
            nonstream_rps=busy.requests_a_second,
            nonstream_cpu_us=cost.us_each,
            stream_cpu_us_per_token=batched.us_each,
            unbatched_cpu_us_per_token=token.us_each,
            added_p50_ms=alone.p50_ms - direct_p50_ms,
            rss_mib=processes.rss_mib(subject.pid),
            errors=errors,
        )

    def stream_cost(self, subject: Subject, request: Request, *, streams: int = STREAMS) -> tuple[Load, Sample]:
        """Return the load of so many streams at once and what a token of them cost."""
        load, sample = self.load(subject, request, connections=streams, seconds=self.seconds + 2)
        return load, replace(sample, units=load.requests * TOKENS_A_STREAM)

    def load(
        self, subject: Subject, request: Request, *, connections: int, seconds: float | None = None
    ) -> tuple[Load, Sample]:
        """Load the subject and return what the load saw and what it cost."""
        began, before = time.monotonic(), processes.cpu_s(subject.pid)
        with processes.on_core(processes.LOAD_CORE):
            load = wrk.run(
                subject.url, request, connections=connections, seconds=seconds or self.seconds, folder=self.folder
            )
        spent = processes.cpu_s(subject.pid) - before
        return load, Sample(spent, load.requests, time.monotonic() - began)
