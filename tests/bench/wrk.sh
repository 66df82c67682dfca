#!/bin/sh
# Sees to it that wrk, the load generator, is there; as root it installs Debian's.
set -eu

command -v wrk >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "bench: wrk is missing. Install it, e.g.: sudo apt-get install wrk" >&2
    exit 1
fi
apt-get update -qq >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends wrk >/dev/null
