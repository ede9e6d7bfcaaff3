#!/bin/sh
# Print a folder with the C headers of the given Python, or nothing where it has its own in place.
# Debian keeps them in a package of their own, which is unpacked into .cache here: no root is needed for that.
set -eu
python=$1
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ ! -e "$include/Python.h" ] || exit 0

fetch() {
    apt-get download "$1" || { apt-get update && apt-get download "$1"; }  # a new container has no lists yet
}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
cache=${WEFT_CACHE:-$(dirname "$0")/../.cache}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
headers=$cache/headers-$version
if [ ! -e "$headers/Python.h" ]; then
    work=$(mktemp -d "$cache/.headers.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && fetch "libpython$version-dev" && dpkg-deb -x ./*.deb tree) >"$work/log" 2>&1 || {
        echo "make: no Python.h for $python, and no package of it could be had; on Debian: apt-get install" \
            "python3-dev" >&2
        exit 1
    }
    # pyconfig.h of the architecture takes the place of Debian's switch between them.
    mv "$work"/tree/usr/include/*/"python$version"/pyconfig.h "$work/tree/usr/include/python$version/"
    mv "$work/tree/usr/include/python$version" "$headers"
fi
echo "$headers"
