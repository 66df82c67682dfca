"""What the simulated engine counts, and its prefix cache."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

BLOCK_TOKENS = 16
_MAX_BLOCKS = 20_000


@dataclass(slots=True)
class Counters:
    """The figures of the metrics page."""

    model: str
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cached_tokens: int = 0
    cache_queries: int = 0
    rejections: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("stop", "length", "abort", "error"), 0))

    def page(self) -> str:
        """The metrics in Prometheus' text format, under vLLM's names."""
        label = f'engine="0",model_name="{self.model}"'
        figures = [
            ("num_requests_running", "gauge", self.running),
            ("num_requests_waiting", "gauge", self.waiting),
            ("prefix_cache_queries_total", "counter", self.cache_queries),
            ("prefix_cache_hits_total", "counter", self.cached_tokens),
            ("prompt_tokens_total", "counter", self.prompt_tokens),
            ("prompt_tokens_cached_total", "counter", self.cached_tokens),
            ("generation_tokens_total", "counter", self.generation_tokens),
        ]
        lines = []
        for name, kind, value in figures:
            lines += [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{{{label}}} {float(value)}"]
        lines.append("# TYPE vllm:request_success_total counter")
        for reason, count in self.finished.items():
            labels = f'engine="0",finished_reason="{reason}",model_name="{self.model}"'
            lines.append(f"vllm:request_success_total{{{labels}}} {float(count)}")
        lines.append("# TYPE vllm:admission_rejections_total counter")
        labels = f'model_name="{self.model}",reason="max_num_queued_reqs"'
        lines.append(f"vllm:admission_rejections_total{{{labels}}} {float(self.rejections)}")
        return "\n".join(lines) + "\n"


class PrefixCache:
    """Remembers whole blocks of prompts per salt; the last token of a prompt is always computed."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def look_up(self, ids: Sequence[int], *, salt: str) -> int:
        """Return how many tokens were cached, and remember this prompt."""
        hits, is_hit, digest = 0, True, salt.encode()
        for start in range(0, len(ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
            block = ",".join(map(str, ids[start : start + BLOCK_TOKENS])).encode()
            digest = hashlib.sha256(digest + b"|" + block).digest()
            is_hit = is_hit and digest in self._blocks and start + BLOCK_TOKENS < len(ids)
            hits += BLOCK_TOKENS if is_hit else 0
            self._blocks[digest] = None
            self._blocks.move_to_end(digest)
        while len(self._blocks) > _MAX_BLOCKS:
            self._blocks.popitem(last=False)
        return hits
