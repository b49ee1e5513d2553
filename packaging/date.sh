#!/bin/sh
# packaging/date.sh: prints the time that packages bear, in seconds since 1970: $SOURCE_DATE_EPOCH, or else
# the time of the commit.
set -eu
cd "$(dirname "$0")/.."
echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}"
