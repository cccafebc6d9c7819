#!/bin/sh
# lock.sh: writes helm/image/locked anew: for each set of extras that images are built with, all packages with their
# versions, and the hashes of their files. To be run, and looked at, before a release.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --target "$tools" uv
for extras in jwt,kafka,mysql,otel,zstd spark,zstd; do
    # The oldest Python that is supported; whatever the machine.
    "$tools/bin/uv" pip compile "$here/../../pyproject.toml" --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-header --no-annotate --output-file "$here/locked/$extras.txt" \
        $(echo "$extras" | sed 's/[^,]*/--extra &/g; s/,/ /g')
done
