"""What a request becomes in a chat's words, and how its other fields fare."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.fields import chat, sampling
from portal.gateway.fields.asked import Asked

# Fields of the catalogue's own list, by the same names on every endpoint.
EXTRAS: Final = frozenset({"chat_template_kwargs", "min_p", "repetition_penalty", "structured_outputs", "top_k"})


@dataclass(slots=True)
class Notes:
    """Names of what was read and left out, each once and in the order it was met."""

    names: dict[str, None] = field(default_factory=dict)

    def ignore(self, name: str) -> None:
        """Note a field that has no effect here."""
        self.names[name] = None


@dataclass(frozen=True, slots=True)
class Translated:
    """A chat as a customer would send it, and the names of the fields that found no place in it."""

    chat: dict[str, Any]
    ignored: tuple[str, ...]

    def checked(self, model: ModelEntry, *, renamed: Mapping[str, str]) -> Asked:
        """Return the checked chat, its ignored fields by the names that the customer used. Raises ApiError."""
        asked = chat.check(self.chat, model)
        ignored = (*self.ignored, *(renamed.get(name, name) for name in asked.ignored))
        return replace(asked, ignored=tuple(dict.fromkeys(ignored)))


def carry_rest(raw: Mapping[str, Any], into: dict[str, Any], notes: Notes, *, known: Iterable[str]) -> None:
    """Take over what the catalogue may list, and note what nobody knows. Raises ApiError for engine fields."""
    sampling.refuse(raw)
    for name, value in raw.items():
        if value is None or name in known:
            continue
        if name in EXTRAS:
            into.setdefault(name, value)
        else:
            notes.ignore(name)


def add_turn(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    """Add a message to a chat; neighbours of one role become one turn, which templates insist on."""
    last = rows[-1] if rows else {}
    if row["role"] != last.get("role") or row["role"] == "tool":
        rows.append(row)
        return
    last["content"] = "\n".join(text for text in (last["content"], row["content"]) if text) or row["content"]
    if "tool_calls" in row:
        last["tool_calls"] = [*last.get("tool_calls", ()), *row["tool_calls"]]
