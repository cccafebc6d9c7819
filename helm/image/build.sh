#!/bin/sh
# build.sh SOURCES PREFIX [EXTRAS]: what the image holds, a virtual environment with Upquery. The Dockerfile runs it, and so
# does a test, in a folder of its own, with INSTALL_OPTIONS=--no-deps and so without what Upquery needs. Packages are those
# of helm/image/locked, by version and hash, where it has the extras (`lock.sh`). PREFIX/share/upquery has the bill of
# materials and the licence notices.
set -eu
sources=$1
prefix=$2
extras=${3:-}
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
python=${PYTHON:-python3}
# The installer stays outside: an intruder finds none.
"$python" -m venv --without-pip "$prefix"
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$wheels" "$sources"
set -- "$wheels"/upquery-*.whl
install() {
    "$python" -m pip --python "$prefix/bin/python" install --quiet "$@"
}
locked=$sources/helm/image/locked/$extras.txt
if [ -f "$locked" ]; then
    install --require-hashes --requirement "$locked"
    install --no-deps "$1"
else
    [ -z "$extras" ] || echo "build.sh: of the extras $extras no versions are locked" >&2
    install ${INSTALL_OPTIONS:-} "$1${extras:+[$extras]}"
fi
"$python" "$sources/helm/image/inventory.py" "$prefix"
