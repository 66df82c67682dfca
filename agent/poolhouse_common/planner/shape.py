"""What a model is made of, as far as memory and speed depend on it."""

from dataclasses import dataclass
from enum import StrEnum

from poolhouse_common.planner.quantization import Quantization


class Attention(StrEnum):
    """How layers remember: every token, the last ones, one latent vector a token, or a state of constant size."""

    FULL = "full"
    SLIDING = "sliding"
    LATENT = "latent"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Layers:
    """`count` layers that remember alike.

    FULL and SLIDING keep `kv_heads` x (`key_dim` + `value_dim`) numbers a token, SLIDING for `window` tokens only;
    LATENT keeps `key_dim` numbers a token, on every rank; STATE keeps `state_bytes` a sequence, spread over all ranks.
    """

    attention: Attention
    count: int
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    window: int = 0
    state_bytes: int = 0


class Spread(StrEnum):
    """How a part of the weights lies on the ranks of tensor parallelism."""

    SHARDED = "sharded"
    KV_HEADS = "kv_heads"
    REPLICATED = "replicated"


@dataclass(frozen=True, slots=True)
class Part:
    """`parameters` weights of one kind; `active` of them work on each token; `is_quantized` where the format says so.

    `padded` is how many are stored where a kernel pads the matrices (0: as many as there are).
    """

    name: str
    parameters: int
    active: int
    spread: Spread = Spread.SHARDED
    is_quantized: bool = False
    padded: int = 0

    @property
    def stored(self) -> int:
        """How many weights lie in memory."""
        return self.padded or self.parameters


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: how many, how many work on a token, and how wide each is."""

    count: int
    active: int
    width: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model as its config.json describes it. `weight_bytes` is the size of its files, 0 where that is not known.

    `attention_width` is all heads' queries together; `block_tokens` is how many tokens a block of the cache holds.
    """

    family: str
    architecture: str
    layers: tuple[Layers, ...]
    parts: tuple[Part, ...]
    hidden: int
    intermediate: int
    vocabulary: int
    attention_heads: int
    attention_width: int
    context_tokens: int
    dtype: str
    quantization: Quantization
    experts: Experts | None = None
    weight_bytes: int = 0
    is_embedding: bool = False
    block_tokens: int = 16

    @property
    def layer_count(self) -> int:
        """How many layers there are."""
        return sum(layers.count for layers in self.layers)

    @property
    def parameters(self) -> int:
        """How many weights the model has."""
        return sum(part.parameters for part in self.parts)

    @property
    def active_parameters(self) -> int:
        """How many weights work on each token."""
        return sum(part.active for part in self.parts)

    @property
    def kv_heads(self) -> int:
        """The most heads that keep keys and values in a layer."""
        return max((layers.kv_heads for layers in self.layers), default=0)
