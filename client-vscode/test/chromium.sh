#!/usr/bin/env bash
# Chromium for the tests: CHROMIUM, what is installed, or (as root on Debian) the distribution's package.
set -euo pipefail
[ -n "${CHROMIUM:-}" ] && exit 0
for each in chromium chromium-browser google-chrome; do [ -x "/usr/bin/$each" ] && exit 0; done
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null
else
    echo 'No Chromium found. Install it (on Debian: apt install chromium), or say CHROMIUM=/path/to/chrome.' >&2
    exit 1
fi
