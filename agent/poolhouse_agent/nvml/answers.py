"""What the children said, line by line, put together: the part of a report that is known however it ended."""

import json
from dataclasses import dataclass, field
from typing import Any

NOT_ASKED = "not_asked"


@dataclass(slots=True)
class GpuAnswers:
    """What is known of one GPU: each question has a value, a reason, or was not answered."""

    index: int
    values: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def uuid(self) -> str:
        """Its UUID, empty where it did not say."""
        return str(self.values.get("uuid") or "")

    def cut_short(self, plan: tuple[str, ...], reason: str) -> None:
        """Note why the next question has no answer, and that the rest was not put."""
        open_questions = [name for name in plan if name not in self.values and name not in self.missing]
        for name in open_questions:
            self.missing[name] = reason if name == open_questions[0] else NOT_ASKED


@dataclass(slots=True)
class Answers:
    """The answers of one reading, of one child or of several."""

    plan: tuple[str, ...] = ()
    system: dict[str, Any] = field(default_factory=dict)
    system_missing: dict[str, str] = field(default_factory=dict)
    gpus: dict[int, GpuAnswers] = field(default_factory=dict)
    failure: tuple[str, str] | None = None
    turn: int | None = None
    is_complete: bool = False

    def take(self, output: bytes) -> None:
        """Take the lines of a child that is about to begin, or began, anew; a torn line is no answer."""
        self.turn, self.is_complete = None, False
        for text in output.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                self._take(line)

    def _take(self, line: dict[str, Any]) -> None:
        match line:
            case {"plan": list(names)}:
                self.plan = tuple(str(name) for name in names)
            case {"failure": str(code)}:
                self.failure = (code, str(line.get("detail", "")))
            case {"turn": int(index)}:
                self.turn = index
                self.gpus[index] = GpuAnswers(index)
            case {"gpu": int(index), "field": str(name)} if index in self.gpus:
                self._note(line, name, self.gpus[index].values, self.gpus[index].missing)
            case {"field": str(name)}:
                self._note(line, name, self.system, self.system_missing)
            case {"end": True}:
                self.is_complete = True

    @staticmethod
    def _note(line: dict[str, Any], name: str, values: dict[str, Any], missing: dict[str, str]) -> None:
        if "value" in line:
            values[name] = line["value"]
        else:
            missing[name] = str(line.get("missing", NOT_ASKED))
