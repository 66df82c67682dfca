"""How weights are stored: the formats that vLLM serves, what each costs and needs, and why others are refused."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from poolhouse_common.planner.errors import ConfigRefused

_KIBI = 1024  # weights are counted in 1024ths of a byte, so that sums stay exact


@dataclass(frozen=True, slots=True)
class Quantization:
    """`method` is vLLM's name ("" is none); `weight_kib` is bytes x 1024 a quantized weight takes, scales included.

    `floor` is the lowest compute capability that serves it at all, `native` the lowest that computes in the format.
    A rank's share of a matrix must be whole multiples of `group` (0: any share will do).
    """

    method: str
    label: str
    weight_kib: int
    bits: int
    floor: str
    native: str
    group: int = 0

    def bytes_of(self, weights: int) -> int:
        """Return the bytes of so many quantized weights."""
        return -(-weights * self.weight_kib // _KIBI)


def capability(text: str) -> tuple[int, int]:
    """Return a compute capability such as "8.9" as numbers that compare; (0, 0) where it is not known."""
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def plain(dtype: str) -> Quantization:
    """Return how unquantized weights are stored. Raises ConfigRefused for an unknown dtype."""
    found = _PLAIN.get(dtype)
    if found is None:
        raise ConfigRefused("quantization_unsupported", f"the number format {dtype[:32]!r} is not known")
    return found


def named(method: str, *, bits: int = 0, group: int = 128) -> Quantization:
    """Return vLLM's format of that name. Raises ConfigRefused with the reason where it is not served."""
    name = method.strip().lower().replace("_marlin", "")
    if reason := _REFUSED.get(name):
        raise ConfigRefused("quantization_unsupported", reason)
    if name in {"awq", "gptq", "auto-round", "inc", "moe_wna16", "torchao"}:
        return _grouped(name, bits=bits or 4, group=group)
    if found := _FORMATS.get(name):
        return found
    raise ConfigRefused("quantization_unsupported", f"the format {method[:32]!r} is not known")


def of_config(config: Mapping[str, object]) -> Quantization | None:
    """Return the format of a `quantization_config`, None where it quantizes nothing. Raises ConfigRefused."""
    method = str(config.get("quant_method") or "").lower()
    if not method and "quant_algo" in config:
        method = "modelopt"
    match method:
        case "compressed-tensors" | "compressed_tensors":
            return _compressed(config)
        case "modelopt" | "modelopt_fp4":
            return named("modelopt_fp4" if "FP4" in str(config.get("quant_algo", "")).upper() else "modelopt")
        case "quark" | "fp_quant":
            return named("fp8")
        case "":
            raise ConfigRefused("quantization_unsupported", "quantization_config has no quant_method")
    bits, group = _number(config.get("bits") or config.get("w_bit")), _number(config.get("group_size"))
    found = named(method, bits=bits, group=group or 128)
    block = config.get("weight_block_size")
    return replace(found, group=_number(block[0])) if isinstance(block, list) and block else found


def _compressed(config: Mapping[str, object]) -> Quantization | None:
    """Read the first group: all groups of one model share a format in what is published."""
    groups = config.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, group = _number(weights.get("num_bits")), _number(weights.get("group_size"))
    if weights.get("type") == "float":
        found = named("modelopt_fp4" if bits == _NVFP4_BITS else "fp8")
    else:
        found = _grouped("", bits=bits, group=group) if bits < _INT8_BITS else _FORMATS["int8"]
    label = f"compressed-tensors {found.label.removeprefix('compressed-tensors ')}".rstrip()
    return replace(found, method="compressed-tensors", label=label)


def _grouped(name: str, *, bits: int, group: int) -> Quantization:
    """Weights of `bits` with a 16-bit scale (and, but for compressed-tensors, a packed zero) for each group."""
    if bits not in {2, 3, 4, 8}:
        raise ConfigRefused("quantization_unsupported", f"{name or 'int'} with {bits} bits")
    zero = bits if name else 0
    extra = -(-_KIBI * (16 + zero) // (8 * group)) if group > 0 else 2
    method = name or "compressed-tensors"
    label = f"{name or 'int'} {bits} bit"
    return Quantization(method, label, _KIBI * bits // 8 + extra, bits, "7.5", "7.5", group=max(group, 0))


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_NVFP4_BITS, _INT8_BITS = 4, 8

_PLAIN: Mapping[str, Quantization] = {
    "bfloat16": Quantization("", "bfloat16", 2 * _KIBI, 16, "8.0", "8.0"),
    "float16": Quantization("", "float16", 2 * _KIBI, 16, "7.0", "7.0"),
    "float32": Quantization("", "float32", 4 * _KIBI, 32, "7.0", "7.0"),
}

_FORMATS: Mapping[str, Quantization] = {
    "fp8": Quantization("fp8", "fp8", _KIBI + 1, 8, "8.0", "8.9"),
    "fbgemm_fp8": Quantization("fbgemm_fp8", "fp8", _KIBI + 1, 8, "8.0", "8.9"),
    "modelopt": Quantization("modelopt", "fp8", _KIBI + 1, 8, "8.9", "8.9"),
    "int8": Quantization("compressed-tensors", "int8", _KIBI + 1, 8, "7.5", "7.5"),
    "experts_int8": Quantization("experts_int8", "int8", _KIBI + 1, 8, "8.0", "8.0"),
    "mxfp4": Quantization("mxfp4", "mxfp4", 544, 4, "8.0", "10.0"),
    "modelopt_fp4": Quantization("modelopt_fp4", "nvfp4", 576, 4, "8.0", "10.0"),
}

_REFUSED: Mapping[str, str] = {
    "gguf": "vLLM no longer serves GGUF itself; use the original weights, or AWQ, GPTQ or FP8 ones",
    "bitsandbytes": "bitsandbytes is converted while loading and is not served; use AWQ, GPTQ or FP8 weights",
    "aqlm": "AQLM was removed from vLLM; use AWQ, GPTQ or FP8 weights",
    "hqq": "HQQ weights are not served; use AWQ, GPTQ or FP8 weights",
    "eetq": "EETQ weights are not served; use AWQ, GPTQ or FP8 weights",
    "exl2": "EXL2 is a format of another engine; use AWQ, GPTQ or FP8 weights",
    "exl3": "EXL3 is a format of another engine; use AWQ, GPTQ or FP8 weights",
    "bitnet": "BitNet weights are not served",
}
