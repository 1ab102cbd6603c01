#!/usr/bin/env bash
# A Chromium for the browser tests: the one that is there, else Debian's package (as root), else playwright's own.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null 2>&1; then
    exit 0
  fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq
  if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; then
    exit 0
  fi
fi
.venv/bin/python -m playwright install chromium
