"""Nodes, models and rounds for the tests of placement."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from poolhouse_common.planner import Gpu, ModelShape, Wish, read_shape

from portal.nodes.rules.placement import Round, Table, Verdict, decide
from portal.nodes.rules.placement_facts import Demand, DeploymentFact, GpuFact, ModelFact, NodeFact, Policy

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)
GIB = 1 << 30
ASKED = Demand(tokens_a_minute=100)


def shape(layers: int = 32) -> ModelShape:
    """A Llama of 8 B parameters, or one of fewer or more layers."""
    return read_shape(
        config={
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": layers, "num_attention_heads": 32, "num_key_value_heads": 8,
            "vocab_size": 128256,
            "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
        },
        weight_bytes=0,
    )  # fmt: skip


SHAPE = shape()


def model(number: int = 1, **fields: Any) -> ModelFact:
    """A model that has been short for long, once something asks for it."""
    given = {"shape": SHAPE, "wish": Wish(context=8192), "short_since": LONG_AGO, **fields}
    return ModelFact(id=number, public_id=f"acme/m{number}", **given)


def gpus(count: int = 1, gib: int = 24, *, of: int = 1) -> tuple[GpuFact, ...]:
    """Equal GPUs; `of` keeps the ids of different nodes apart."""
    card = Gpu(f"Card {gib}", gib * GIB, "8.9")
    return tuple(GpuFact(f"GPU-{of:04d}{index:04d}", card) for index in range(count))


def node(number: int = 1, **fields: Any) -> NodeFact:
    """A ready node with one 24 GiB GPU, on which the pool chooses."""
    given = {"provider_id": number, "state": "ready", "state_code": "no_deployment", "is_automatic": True,
             "is_simulated": False, "gpus": gpus(of=number), **fields}  # fmt: skip
    return NodeFact(id=number, public_id=f"node_{number}", **given)


def running(model_id: int = 1, **fields: Any) -> DeploymentFact:
    """A model that automatic placement put there long ago, ready and on the node's one GPU."""
    given = {"public_id": f"dep_{model_id}", "is_wanted": True, "is_persons": False, "observed": "ready",
             "since": LONG_AGO, "max_concurrency": 10, **fields}  # fmt: skip
    return DeploymentFact(model_id=model_id, **given)


def serving(number: int, *deployments: DeploymentFact, **fields: Any) -> NodeFact:
    """A node that serves these."""
    return node(number, state="serving", state_code="serving", deployments=deployments, **fields)


def decided(nodes: list[NodeFact], models: list[ModelFact], *, now: datetime = NOW, **policy: Any) -> Round:
    """One round."""
    return decide(Table(nodes=nodes, models=models, policy=replace(Policy(), **policy), now=now))


def verdict(found: Round, node_id: int = 1, model: str = "acme/m1") -> Verdict:
    """What the round found of one pair."""
    return next(one for one in found.verdicts[node_id] if one.model == model)


def moves(found: Round) -> list[tuple[str, str, str]]:
    """The round's moves as words."""
    stops = [("stop", move.model.public_id, move.node.public_id) for move in found.stops]
    return stops + [("start", move.model.public_id, move.node.public_id) for move in found.starts]
