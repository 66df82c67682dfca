#!/bin/sh
# Makes .venv and installs everything the demo and the tests need, from hashed requirements.
# As root it installs what the system lacks; as anyone else it names it.
set -eu
exec 1>&2 # standard output belongs to the target that needed this

venv=${1:-.venv}

need() { # need COMMAND PACKAGE...
    command=$1; shift
    command -v "$command" >/dev/null 2>&1 && return 0
    install_packages "$command" "$@"
}

install_packages() { # install_packages WHAT PACKAGE...
    what=$1; shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "bootstrap: installing $* (for $what)"
        apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    else
        echo "bootstrap: $what is missing. Install it, e.g.: sudo apt-get install $*" >&2
        exit 1
    fi
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if command -v "$candidate" >/dev/null 2>&1 && is_new_enough "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

if [ -z "${HOME:-}" ]; then
    HOME=$(mktemp -d)
    export HOME
fi

need git git
need gcc gcc libc6-dev
if [ "$(id -u)" = 0 ]; then need setpriv util-linux; fi
python=$(find_python) || { install_packages "Python 3.11 or newer" python3 python3-venv; python=$(find_python); }
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || install_packages "Python's venv module" python3-venv

if ! "$venv/bin/python" -c 'import pip' >/dev/null 2>&1; then
    echo "bootstrap: making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
echo "bootstrap: installing packages"
pip="$venv/bin/python -m pip --disable-pip-version-check --no-input -q"
$pip install --require-hashes -r requirements-dev.txt
PYTHONWARNINGS=ignore $pip install --no-deps --no-build-isolation -e . -e ./agent 2>/dev/null ||
    $pip install --no-deps --no-build-isolation -e . -e ./agent
echo "bootstrap: $venv is ready"
