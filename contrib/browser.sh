#!/bin/sh
# Prints the path of a Chromium for the browser tests; as root it installs Debian's where there is none.
set -eu

find_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}

if find_browser; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "browser tests need Chromium. Install it, e.g.: sudo apt-get install chromium" >&2
    exit 1
fi
apt-get update -qq >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
find_browser
