#!/bin/sh
# install.sh [PREFIX] : installs the Poolhouse agent into PREFIX (/opt/poolhouse-agent) from the folder it lies in.
#
# Needs Python 3.11 or newer with venv. Installs nothing else on the machine: no driver, no engine, no service.
# `install.sh --uninstall [PREFIX]` takes it away again; the state folder and the configuration stay.
set -eu

say() { printf 'install.sh: %s\n' "$*" >&2; }

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
action=install
if [ "${1:-}" = --uninstall ]; then
    action=uninstall
    shift
fi
prefix=${1:-/opt/poolhouse-agent}
link=${POOLHOUSE_BIN:-/usr/local/bin}/poolhouse-agent

if [ "$action" = uninstall ]; then
    if [ -L "$link" ] && [ "$(readlink "$link")" = "$prefix/bin/poolhouse-agent" ]; then rm -f "$link"; fi
    if [ -x "$prefix/bin/poolhouse-agent" ]; then rm -rf "$prefix"; fi
    say "removed $prefix; /etc/poolhouse and /var/lib/poolhouse are left as they are"
    exit 0
fi

python=
for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    say "Python 3.11 or newer with venv is needed; on Debian: apt-get install python3 python3-venv"
    exit 2
fi
if [ -e "$prefix" ] && [ ! -x "$prefix/bin/python" ]; then
    say "$prefix exists and is no earlier installation; name another PREFIX"
    exit 2
fi

[ -x "$prefix/bin/python" ] || "$python" -m venv "$prefix"

# Built in a copy, so that the folder it comes from stays as it is.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$here/pyproject.toml" "$here/poolhouse_agent" "$here/poolhouse_common" "$work/"
"$prefix/bin/pip" install --quiet --disable-pip-version-check --upgrade "$work"
version=$("$prefix/bin/poolhouse-agent" --version)

if [ -d "$(dirname "$link")" ] && [ -w "$(dirname "$link")" ]; then
    ln -sf "$prefix/bin/poolhouse-agent" "$link"
    say "$version installed; next: poolhouse-agent doctor"
else
    say "$version installed; next: $prefix/bin/poolhouse-agent doctor"
fi
