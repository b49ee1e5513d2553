#!/bin/sh
# packaging/conda.sh DIRECTORY [CHANNEL...]: makes conda packages in DIRECTORY (packaging/conda.py) by the
# Python environment of tools/setup.sh.
set -eu

if [ $# -lt 1 ]; then
    echo "usage: packaging/conda.sh DIRECTORY [CHANNEL...]" >&2
    exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd)
python=$top/build/venv-packages/bin/python
[ -x "$python" ] || {
    echo "packaging/conda.sh: $python is missing; tools/setup.sh packages makes it" >&2
    exit 1
}
SOURCE_DATE_EPOCH=$("$top/packaging/date.sh")
WEFT_COMMIT=$("$top/packaging/commit.sh")
export SOURCE_DATE_EPOCH WEFT_COMMIT
exec "$python" "$top/packaging/conda.py" "$@"
