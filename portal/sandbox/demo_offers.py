"""What the demo sells: the simulator's models, the one that a running server serves, or a real vLLM's."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from poolhouse_common.artefacts import folder_digest

DEMO_MODEL = Path(__file__).parent / "demo_model"
_LONGEST_OUTPUT = 2048
_USUAL_CONTEXT = 8192
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]+")


class EngineMissing(RuntimeError):
    """The engine that was asked for cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A catalogue model as the demo offers it; tokenizer, template and config.json are files.

    With `embedding_dimensions` it makes vectors of that length, and needs no template.
    """

    model: str
    name: str
    source: str
    digest: str
    context_tokens: int
    tokenizer: str
    template: str
    dtype: str = "auto"
    served_name: str = ""
    embedding_dimensions: int | None = None
    engine_args: Mapping[str, Any] | None = None
    config: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it for the seeding process."""
        return asdict(self)


def simulated() -> Offer:
    """Return the simulator's model."""
    tokenizer, template = (DEMO_MODEL / name for name in ("tokenizer.json", "chat_template.jinja"))
    return Offer(
        model="demo/chat-8b",
        name="Demo Chat 8B",
        source="built in",
        digest=hashlib.sha256(tokenizer.read_bytes() + template.read_bytes()).hexdigest(),
        context_tokens=_USUAL_CONTEXT,
        tokenizer=str(tokenizer),
        template=str(template),
        dtype="bfloat16",
        config=str(DEMO_MODEL / "config.json"),
    )


def simulated_vectors() -> Offer:
    """Return the simulator's embedding model."""
    tokenizer = DEMO_MODEL / "tokenizer.json"
    return Offer(
        model="demo/embed-256",
        name="Demo Embed 256",
        source="built in",
        digest=hashlib.sha256(tokenizer.read_bytes()).hexdigest(),
        context_tokens=_USUAL_CONTEXT,
        tokenizer=str(tokenizer),
        template="",
        dtype="bfloat16",
        embedding_dimensions=256,
    )


def external(url: str) -> Offer:
    """Return what the server at `url` serves. Raises EngineMissing.

    Its own tokenizer and template are used where the server names a local folder that has them; otherwise the demo's
    stand in, and the counts are the demo's estimate.
    """
    entry = _served(url)
    served, root = str(entry["id"]), Path(str(entry.get("root") or ""))
    has_files = root.is_dir() and (root / "tokenizer.json").is_file() and _template(root) is not None
    folder = root if has_files else DEMO_MODEL
    return Offer(
        model=f"demo/{_NOT_IN_IDS.sub('-', served).strip('-._')[-40:] or 'external'}",
        name=served[:80],
        source=url,
        digest=hashlib.sha256(f"{url} {served}".encode()).hexdigest(),
        context_tokens=int(entry.get("max_model_len") or _USUAL_CONTEXT),
        tokenizer=str(folder / "tokenizer.json"),
        template=str(_template(folder)),
        served_name=served,
    )


def weights(folder: Path) -> Offer:
    """Return the model whose weights lie in the folder. Raises EngineMissing."""
    template = _template(folder)
    if not (folder / "tokenizer.json").is_file() or template is None:
        raise EngineMissing(f"{folder} has no tokenizer.json with a chat template: name a model's folder")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Offer(
        model=f"demo/{_NOT_IN_IDS.sub('-', folder.name).strip('-._')[-40:]}-weights",
        name=folder.name,
        source=str(folder),
        digest=folder_digest(folder),
        context_tokens=min(int(config.get("max_position_embeddings") or _USUAL_CONTEXT), _USUAL_CONTEXT),
        tokenizer=str(folder / "tokenizer.json"),
        template=str(template),
        engine_args={"enforce_eager": True, "enable_prefix_caching": True},
        config=str(folder / "config.json"),
    )


def template_text(path: Path) -> bytes:
    """Return the chat template that a `.jinja` file or a tokenizer_config.json holds."""
    content = path.read_bytes()
    return str(json.loads(content)["chat_template"]).encode() if path.suffix == ".json" else content


def longest_output(context_tokens: int) -> int:
    """Return how much of the context an answer may take."""
    return min(_LONGEST_OUTPUT, max(1, context_tokens // 2))


def _template(folder: Path) -> Path | None:
    alone, config = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    if alone.is_file():
        return alone
    if config.is_file() and isinstance(json.loads(config.read_bytes()).get("chat_template"), str):
        return config
    return None


def _served(url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(f"{url}/v1/models", timeout=10.0, trust_env=False)
        answer.raise_for_status()
        entry: dict[str, Any] = answer.json()["data"][0]
        str(entry["id"])
    except (httpx.HTTPError, KeyError, IndexError, TypeError, ValueError) as error:
        raise EngineMissing(
            f"ENGINE_URL={url}: /v1/models does not answer like an OpenAI-compatible server ({error})"
        ) from error
    return entry
