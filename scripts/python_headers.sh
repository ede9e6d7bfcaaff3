#!/bin/sh
# Print a folder with the C headers of the given Python, or nothing where it has its own in place.
# Debian keeps them in a package of their own, which is unpacked into .cache here if it is not installed: no root is needed
# for that. Its pyconfig.h chooses between architectures by folders of the system's compiler, which zig does not look in: the
# one of the architecture takes its place.
set -eu
python=$1
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
multiarch=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("MULTIARCH") or "")')
config=$(dirname "$include")/${multiarch:-none}/$(basename "$include")/pyconfig.h
if [ -e "$include/Python.h" ] && [ ! -e "$config" ]; then exit 0; fi

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
    if [ -e "$include/Python.h" ]; then
        cp -r "$include" "$work/include"
        cp "$config" "$work/include/pyconfig.h"
    else
        (cd "$work" && fetch "libpython$version-dev" && dpkg-deb -x ./*.deb tree) >"$work/log" 2>&1 || {
            echo "make: no Python.h for $python, and no package of it could be had; on Debian: apt-get install" \
                "python3-dev" >&2
            exit 1
        }
        mv "$work/tree/usr/include/python$version" "$work/include"
        mv "$work"/tree/usr/include/*/"python$version"/pyconfig.h "$work/include/"
    fi
    mv "$work/include" "$headers"
fi
echo "$headers"
