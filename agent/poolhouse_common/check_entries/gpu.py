"""What is demanded of GPUs. Limits that hold on every card are ours; what depends on the card is compared."""

from poolhouse_common.check import Check, Subject

DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp8")

_MATMUL = tuple(
    Check(
        f"gpu.matmul.{dtype}",
        1,
        f"Matrix product, {dtype}",
        "Multiplies large matrices of normally distributed numbers: what a model's layers do all day.",
        "compute_slow",
        unit="TFLOPS",
        is_compared=True,
    )
    for dtype in DTYPES
)

ENTRIES = (
    Check(
        "gpu.start",
        1,
        "CUDA starts",
        "The engine's own PyTorch opens the GPU, copies numbers there and back and multiplies them exactly.",
        "cuda_start_failed",
    ),
    Check(
        "gpu.vram",
        1,
        "GPU memory holds data",
        "Fills nine tenths of the free memory with known numbers and reads every one of them back.",
        "vram_unusable",
        unit="percent",
        fail_limit_milli=85_000,
        warn_limit_milli=90_000,
    ),
    *_MATMUL,
    Check(
        "gpu.repeat",
        1,
        "The same product, bit by bit",
        "Computes one product again and again; every result must be equal in every bit.",
        "compute_inconsistent",
    ),
    Check(
        "gpu.memory_bandwidth",
        1,
        "GPU memory bandwidth",
        "Copies a large block within the GPU's memory; it limits how fast tokens can be written.",
        "memory_slow",
        unit="GB/s",
        is_compared=True,
    ),
    Check(
        "gpu.pcie.to_device",
        1,
        "Copy to the GPU",
        "Copies pinned memory to the GPU.",
        "pcie_slow",
        unit="GB/s",
        fail_limit_milli=1_500,
        warn_limit_milli=2_850,
    ),
    Check(
        "gpu.pcie.from_device",
        1,
        "Copy from the GPU",
        "Copies from the GPU to pinned memory.",
        "pcie_slow",
        unit="GB/s",
        fail_limit_milli=1_500,
        warn_limit_milli=2_850,
    ),
    Check(
        "gpu.peer",
        1,
        "Copies between GPUs",
        "Copies known numbers from each GPU to each other one and compares them; the figure is the slowest pair's.",
        "peer_copy_wrong",
        subject=Subject.NODE,
        unit="GB/s",
        fail_limit_milli=500,
        warn_limit_milli=1_500,
    ),
    Check(
        "gpu.all_reduce",
        1,
        "NCCL between GPUs",
        "Sums a block over all GPUs by NCCL, as an engine does that spans several of them, and checks the sum.",
        "nccl_failed",
        subject=Subject.NODE,
        unit="GB/s",
        fail_limit_milli=500,
        warn_limit_milli=1_500,
    ),
    Check(
        "gpu.soak",
        1,
        "Speed under lasting load",
        "Multiplies without a pause; the figure is how much of the first seconds' speed is left at the end.",
        "thermal_drop",
        unit="percent",
        fail_limit_milli=70_000,
        warn_limit_milli=85_000,
    ),
)
