"""An engine's Python whose PyTorch is a script: it answers each GPU program from a JSON file, as real ones would."""

import json
import sys
from pathlib import Path
from typing import Any

_SCRIPT = """#!{python}
import json, os, sys, time
script = json.load(open({script!r}))
program = sys.argv[sys.argv.index("--device") - 1]
options = json.loads(sys.argv[sys.argv.index("--options") + 1])
gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")[-1:]
names = [program + "." + options.get("dtype", ""), program]
if os.environ.get("NCCL_P2P_DISABLE"):
    names.insert(0, program + ".without_p2p")
said = next((script[place] for name in names for place in (name + "@" + gpu, name) if place in script), None)
if said is None:
    print("no such program", program, file=sys.stderr)
    sys.exit(3)
for line in said if isinstance(said, list) else [said]:
    if line == "hang":
        time.sleep(600)
    if line == "die":
        os.kill(os.getpid(), 9)
    print(line if isinstance(line, str) else json.dumps(line), flush=True)
"""

RTX4090: dict[str, Any] = {
    "start": {"result": {"torch": "2.9.0", "cuda": "12.8"}},
    "fill": [{"progress": 0.5}, {"result": {"percent": 98.2}}],
    "bandwidth": {"result": {"gb_per_s": 921.4}},
    "link": {"result": {"to_device_gb_per_s": 24.8, "from_device_gb_per_s": 26.1}},
    "link@2": {"result": {"to_device_gb_per_s": 2.4, "from_device_gb_per_s": 2.6}},
    "product.bf16": {"result": {"tflops": 166.0}},
    "product.fp16": {"result": {"tflops": 167.2}},
    "product.tf32": {"result": {"tflops": 84.1}},
    "product.fp32": {"result": {"tflops": 58.0}},
    "product.fp8": {"unsupported": "compute capability (8, 0) has no fp8"},
    "repeat": {"result": {"times": 50}},
    "soak": {"result": {"percent": 99.1}},
    "copies": {"result": {"gb_per_s": 2.1}},
    "all_reduce": {"result": {"gb_per_s": 2.0}},
}


def build(folder: Path, script: dict[str, Any]) -> Path:
    """Make an environment with `bin/vllm` and `bin/python3`; return the vllm program."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    answers = folder / "answers.json"
    answers.write_text(json.dumps(script), encoding="utf-8")
    python = programs / "python3"
    python.write_text(_SCRIPT.format(python=sys.executable, script=str(answers)), encoding="utf-8")
    vllm = programs / "vllm"
    vllm.write_text(f"#!{python}\n", encoding="utf-8")
    for file in (python, vllm):
        file.chmod(0o755)
    return vllm
