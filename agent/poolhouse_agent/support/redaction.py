"""Takes secrets and request texts out of what leaves the machine. What is not known to be harmless is left out."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from poolhouse_agent.engine import vllm_log
from poolhouse_agent.errors import EngineError
from poolhouse_agent.logs import masked

_SHORTEST_SECRET = 6
_TOKENS = re.compile(r"\b(hf_|github_pat_|ghp_|sk-|xox[abp]-)[A-Za-z0-9_-]{8,}")
_USER_AT_HOST = re.compile(r"(?<=://)[^/\s@]+@")
_NAMED = re.compile(r"(?i)((?:api[_-]?key|token|password|secret)\w*['\"]?\s*[=:]\s*['\"]?)[^\s'\",;}]+")
_OUR_LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+Z-]+ [A-Z]+ [a-z_]+\.[a-z_]+( |$)")
_OUR_JSON = re.compile(r'\{"at": "\d{4}-')
# Events whose detail may hold an engine's own words, and so a customer's.
_TELLING = re.compile(r"(?:deployment|engine|request|tunnel)\.")
_DETAIL = re.compile(r' detail=(?:"(?:[^"\\]|\\.)*"|\S+)')
_FRAME = re.compile(r'\s*File "[^"\n]+", line \d+, in [\w<>.]+$')
_ERROR = re.compile(r"([A-Za-z_.]+(?:Error|Exception|Interrupt|Exit)): ")
_VLLM_LINE = re.compile(r"(?:\(\w+(?: pid=\d+)?\) )?(?:DEBUG|INFO|WARNING|ERROR) [\d: -]+\[([\w/.]+\.py):\d+\] ")
# vLLM's modules that speak of the machine, the model and the cache; those that see requests are not among them.
_QUIET_SOURCES = frozenset({
    "__init__.py", "arg_utils.py", "backends.py", "base_loader.py", "config.py", "cuda.py", "default_loader.py",
    "gpu_model_runner.py", "gpu_worker.py", "kv_cache_utils.py", "model.py", "monitor.py", "parallel_state.py",
    "pynccl.py", "weight_utils.py", "worker_base.py",
})  # fmt: skip


class Redactor:
    """Knows this machine's own secrets by their text, and the rest by their shape."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted({one for one in secrets if len(one) >= _SHORTEST_SECRET}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = _NAMED.sub(r"\1***", _TOKENS.sub(r"\1***", _USER_AT_HOST.sub("***@", text)))
        return masked(text)

    def value(self, value: Any) -> Any:
        """The same for all texts in a JSON value."""
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(item) for name, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def own_log(self, text: str) -> str:
        """The agent's own log: its lines of one event each, and of a traceback the places alone."""
        return self._kept(text, self._own_line)

    def engine_log(self, text: str) -> str:
        """An engine's log: lines of modules that never see a request, known failures, and of a traceback the places."""
        return self._kept(text, self._engine_line)

    def _own_line(self, line: str) -> str:
        if _OUR_LINE.match(line):
            is_telling = _TELLING.match(line.split(" ", 2)[2])
            return _DETAIL.sub("", line) if is_telling else line
        return _event(line) if _OUR_JSON.match(line) else _place(line)

    def _engine_line(self, line: str) -> str:
        found = _VLLM_LINE.match(line)
        if found and found[1].rpartition("/")[2] in _QUIET_SOURCES:
            return line
        return _place(line)

    def _kept(self, text: str, keep: Any) -> str:
        return "\n".join(self.text(line) for line in _with_gaps(keep(line) for line in text.splitlines())) + "\n"


def _event(line: str) -> str:
    """An event in JSON, without its detail where that may hold an engine's words; empty where it is torn."""
    try:
        event = json.loads(line)
    except ValueError:
        return ""
    if _TELLING.match(str(event.get("event", ""))):
        event.pop("detail", None)
    return json.dumps(event, ensure_ascii=False)


def _place(line: str) -> str:
    """Where an error was and what kind it is, without its words; empty for any other line."""
    if _FRAME.fullmatch(line):
        return line.rstrip()
    error = _ERROR.match(line)
    if error is None:
        return ""
    code = vllm_log.classify(line, fallback=EngineError("")).code
    return f"{error[1]}: [left out]" + (f" ({code})" if code else "")


def _with_gaps(lines: Iterable[str]) -> Iterator[str]:
    """The lines, and in place of what was left out how much it was."""
    gap = 0
    for line in lines:
        if not line:
            gap += 1
            continue
        if gap:
            yield f"[{gap} lines left out]"
        gap = 0
        yield line
    if gap:
        yield f"[{gap} lines left out]"
