#!/bin/sh
# packaging/commit.sh: prints the commit that is built, with `+` behind it if files of it have been changed;
# $WEFT_COMMIT in its place, if that is set; `unknown` outside a repository.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${WEFT_COMMIT:-}" ]; then
    echo "$WEFT_COMMIT"
elif [ -e .git ] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit=$commit+
    echo "$commit"
else
    echo unknown
fi
