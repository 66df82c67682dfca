#!/bin/sh
# Installs the Poolhouse agent. Served by the pool with the lines below filled in; what it fetches is checked against them.
#
#   sh install.sh [--join] [--user] [--prefix DIR] [--no-service] [--skip-doctor] [--name NAME] [--simulate PROFILE]
#                 [--release-key KEY] [--from DIR]
#   sh install.sh --uninstall [--purge] [--user] [--prefix DIR]
#
# --join reads an enrolment token from standard input and joins the pool with it, after `doctor` has looked at the machine.
# --user installs below your home folder instead of /opt. --from takes the files from a folder instead of the pool.
# Needs Python 3.11 or newer with venv. Running it again upgrades or mends; it installs no driver and no engine.
# --uninstall takes away what this script made; the node's identity and configuration stay unless --purge is given.
set -eu
umask 022

server=''
version=''
wheel=''
wheel_sha256=''
requirements_sha256=''
release_key=''

action=install joins=no scope=system prefix='' service=yes doctor=yes name='' simulate='' pinned='' from='' purges=no
say() { printf 'install.sh: %s\n' "$*" >&2; }
die() { say "$2"; exit "$1"; }

while [ $# -gt 0 ]; do
    case $1 in
        --uninstall) action=uninstall ;;
        --purge) purges=yes ;;
        --join) joins=yes ;;
        --user) scope=user ;;
        --no-service) service=no ;;
        --skip-doctor) doctor=no ;;
        --prefix | --name | --simulate | --release-key | --from)
            [ $# -ge 2 ] || die 2 "$1 needs a value"
            case $1 in
                --prefix) prefix=$2 ;;
                --name) name=$2 ;;
                --simulate) simulate=$2 ;;
                --release-key) pinned=$2 ;;
                --from) from=$2 ;;
            esac
            shift ;;
        *) die 2 "unknown argument $1" ;;
    esac
    shift
done

if [ "$scope" = user ]; then
    : "${HOME:?HOME must be set for --user}"
    prefix=${prefix:-${XDG_DATA_HOME:-$HOME/.local/share}/poolhouse-agent}
    state=${XDG_STATE_HOME:-$HOME/.local/state}/poolhouse
    config=${XDG_CONFIG_HOME:-$HOME/.config}/poolhouse/agent.toml
    binaries=${POOLHOUSE_BIN:-$HOME/.local/bin}
    flag=--user
else
    prefix=${prefix:-/opt/poolhouse-agent}
    state=${POOLHOUSE_STATE:-/var/lib/poolhouse}
    config=${POOLHOUSE_CONFIG:-/etc/poolhouse/agent.toml}
    binaries=${POOLHOUSE_BIN:-/usr/local/bin}
    flag=
fi
command=$binaries/poolhouse-agent
case $prefix$state$config in *[!A-Za-z0-9/._+-]*) die 2 "paths may hold letters, digits and /._+- only" ;; esac
case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac

has_systemd() { [ "$service" = yes ] && [ -d /run/systemd/system ] && { [ "$scope" = user ] || [ "$(id -u)" = 0 ]; }; }
made() { # made WHAT: what an earlier run noted, if it did
    [ -f "$prefix/.made" ] && grep -q "^$1 " "$prefix/.made" && sed -n "s/^$1 //p" "$prefix/.made"
}
note_made() { made "$1" >/dev/null || printf '%s %s\n' "$1" "$2" >>"$prefix/.made"; }
is_joined() { [ -f "$state/node.json" ]; }
agent() { "$prefix/current/bin/poolhouse-agent" --config "$config" --state "$state" "$@"; }

options() { # what a person has to add where nothing is in its usual place
    [ "$scope" = user ] || [ "$state" = /var/lib/poolhouse ] || printf ' --state %s' "$state"
    [ "$scope" = user ] || [ "$config" = /etc/poolhouse/agent.toml ] || printf ' --config %s' "$config"
}

as_agent() { # the agent without root's rights: as its own user, else as nobody, else as whoever calls this
    if [ "$(id -u)" = 0 ] && [ "$scope" = system ] && command -v runuser >/dev/null 2>&1; then
        for user in poolhouse nobody; do
            if id "$user" >/dev/null 2>&1 && { [ "$user" = poolhouse ] || [ "$1" = doctor ]; }; then
                runuser -u "$user" -- "$prefix/current/bin/poolhouse-agent" --config "$config" --state "$state" "$@"
                return
            fi
        done
    fi
    agent "$@"
}

uninstall() {
    if [ ! -e "$prefix" ]; then say "nothing is installed in $prefix"; exit 0; fi
    [ -f "$prefix/.made" ] || die 2 "$prefix was not made by this script; nothing was removed"
    state=$(made folder || printf '%s' "$state") config=$(made config || printf '%s' "$config")
    if has_systemd && [ -x "$prefix/current/bin/poolhouse-agent" ]; then
        agent service uninstall $flag >&2 || die 1 "the service could not be removed; nothing else was"
    fi
    if [ -e "$state/run.lock" ] && command -v flock >/dev/null 2>&1 && ! flock -n "$state/run.lock" true; then
        die 1 "an agent still runs on $state; stop it, then uninstall again"
    fi
    if command=$(made command) && grep -qs "$prefix/current" "$command" 2>/dev/null; then rm -f "$command"; fi
    if [ -L "$command" ] && [ "$(readlink "$command")" = "$prefix/current/bin/poolhouse-agent" ]; then rm -f "$command"; fi
    kept=
    if [ -d "$state" ] && [ "$purges" = no ]; then
        if is_joined; then
            kept=$state
            say "this machine is still a node of its pool: \`poolhouse-agent leave\` before, or --purge, forgets it"
        elif ! made state >/dev/null; then
            kept=$state
        fi
    fi
    [ -n "$kept" ] || rm -rf "$state"
    if [ -z "$kept" ] && made user >/dev/null && command -v userdel >/dev/null 2>&1; then
        userdel poolhouse || say "the user poolhouse stays"
    fi
    if [ "$purges" = yes ] || made fresh-config >/dev/null && [ ! -s "$config" ]; then
        rm -f "$config"
        rmdir "$(dirname "$config")" 2>/dev/null || :
    fi
    rm -rf "$prefix"
    say "removed${kept:+; $kept stays}"
    exit 0
}
[ "$action" = install ] || uninstall

python=
for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done
[ -n "$python" ] || die 2 "Python 3.11 or newer with venv is needed; on Debian: apt-get install python3 python3-venv"
if [ -e "$prefix" ] && [ ! -f "$prefix/.made" ] && [ -n "$(ls -A "$prefix")" ]; then
    die 2 "$prefix exists and is no earlier installation; name another with --prefix"
fi
token=
if [ "$joins" = yes ]; then
    IFS= read -r token || [ -n "$token" ] || die 2 "--join reads the enrolment token from standard input, and none came"
fi

work=$(mktemp -d)
begun=
leave() {
    status=$?
    rm -rf "$work"
    [ -z "$begun" ] || rm -rf "$begun"
    if [ "$status" != 0 ] && [ ! -e "$prefix/current" ]; then # nothing was installed before this run either
        rm -f "$prefix/.made"
        rmdir "$prefix/versions" "$prefix" 2>/dev/null || :
    fi
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM

take() { # take NAME SHA256: one file of the release into $work, checked
    "$python" - "$1" "$2" "$work" "$from" "$server" "$version" <<'PY' || die 1 "nothing was installed"
import hashlib, pathlib, sys, urllib.error, urllib.parse, urllib.request
name, digest, work, folder, server, version = sys.argv[1:]
class Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None
try:
    if folder:
        content = (pathlib.Path(folder) / name).read_bytes()
    else:
        url = f"{server}/agent/v1/releases/{version}/{name}"
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
            sys.exit(f"install.sh: {url} is not https")
        with urllib.request.build_opener(Stays).open(url, timeout=60) as answer:
            content = answer.read(1 << 26)
except (OSError, ValueError) as error:
    sys.exit(f"install.sh: {name} could not be fetched: {error}")
if hashlib.sha256(content).hexdigest() != digest:
    sys.exit(f"install.sh: {name} is not what it should be (SHA-256 differs): the download is broken or was changed")
(pathlib.Path(work) / name).write_bytes(content)
PY
}

if [ -n "$from" ]; then
    described=$("$python" - "$from/manifest.json" <<'PY'
import json, re, sys
value = json.load(open(sys.argv[1], encoding="utf-8"))
files = value["files"]
words = [value["version"], files["wheel"]["name"], files["wheel"]["sha256"], files["requirements"]["sha256"]]
print(" ".join(word if re.fullmatch(r"[A-Za-z0-9._+-]+", word) else sys.exit("install.sh: odd manifest") for word in words))
PY
    ) || die 2 "$from holds no release"
    set -- $described
    version=$1 wheel=$2 wheel_sha256=$3 requirements_sha256=$4
fi
[ -n "$version" ] || die 2 "this copy names no release: fetch it from the pool (SERVER/agent/install.sh), or use --from DIR"
take "$wheel" "$wheel_sha256"
take requirements.txt "$requirements_sha256"

old_key=$("$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))["public_key"])' "$prefix/release.json" 2>/dev/null || :)
key=${pinned:-$release_key}
if [ -n "$old_key" ] && [ "$old_key" != "$key" ]; then
    [ -n "$key" ] || die 1 "no release key was named, and one is pinned; to keep it: --release-key '$old_key'"
    [ -n "$pinned" ] || die 1 "the pool's release key is not the pinned one ($old_key); if the operator confirms: --release-key '$key'"
fi

venv=$prefix/versions/$version-$(printf '%.8s' "$wheel_sha256")
mkdir -p "$prefix/versions"
[ -f "$prefix/.made" ] || : >"$prefix/.made"
if [ "$(cat "$venv/.complete" 2>/dev/null || :)" = "$wheel_sha256" ]; then
    say "$version is already there"
else
    say "installing $version into $venv"
    rm -rf "$venv"
    begun=$venv
    "$python" -m venv "$venv"
    pip="$venv/bin/python -m pip --disable-pip-version-check --no-input --quiet"
    $pip install --no-cache-dir --require-hashes --only-binary :all: -r "$work/requirements.txt" ||
        die 1 "the packages could not be installed; nothing was changed"
    $pip install --no-cache-dir --no-deps --no-index "$work/$wheel" || die 1 "the agent could not be installed"
    "$venv/bin/poolhouse-agent" --version >/dev/null || die 1 "the installed agent does not start"
    printf '%s\n' "$wheel_sha256" >"$venv/.complete"
    begun=
fi

for link in current updater; do
    ln -sfn "versions/${venv##*/}" "$prefix/.$link" && mv -T "$prefix/.$link" "$prefix/$link"
done
if [ -n "$server" ]; then
    printf '{"server": "%s", "public_key": "%s"}\n' "$server" "$key" >"$prefix/.release.json"
    mv "$prefix/.release.json" "$prefix/release.json"
fi

[ "$scope" = system ] || mkdir -p "$binaries"
if [ -d "$binaries" ] && [ -w "$binaries" ]; then
    if [ "$scope" = user ]; then
        printf '#!/bin/sh\nexec "%s" --config "%s" --state "%s" "$@"\n' "$prefix/current/bin/poolhouse-agent" "$config" "$state" >"$command"
        chmod 755 "$command"
        mkdir -p "$(dirname "$config")"
        [ -f "$config" ] || { : >"$config"; note_made fresh-config "$config"; }
    else
        ln -sfn "$prefix/current/bin/poolhouse-agent" "$command"
    fi
    note_made command "$command"
else
    command=$prefix/current/bin/poolhouse-agent
fi

[ -d "$state" ] || note_made state "$state"
note_made folder "$state"
note_made config "$config"
if has_systemd; then
    id poolhouse >/dev/null 2>&1 || [ "$scope" = user ] || note_made user poolhouse
    agent service install --no-start $flag >&2
fi

if [ "$joins" = yes ] && is_joined; then
    say "this machine has joined already"
elif [ "$joins" = yes ]; then
    [ -n "$server" ] || die 2 "this copy names no pool to join"
    if [ "$doctor" = yes ] && [ -z "$simulate" ]; then
        as_agent doctor >&2 || die 1 "doctor found what is in the way (above); nothing was joined. --skip-doctor joins all the same"
    fi
    set -- join --server "$server" --token-file -
    [ -z "$name" ] || set -- "$@" --name "$name"
    [ -z "$simulate" ] || set -- "$@" --simulate "$simulate"
    printf '%s\n' "$token" | as_agent "$@" >&2 || die 1 "joining failed (above); the agent is installed, run the command again"
fi

if has_systemd && is_joined; then
    agent service start $flag >&2
elif is_joined; then
    say "no service was set up; start it with: $command$(options) run"
else
    say "$("$venv/bin/poolhouse-agent" --version) installed; next: $command$(options) doctor"
fi
