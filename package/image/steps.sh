#!/bin/sh
# Write the files of the runtime image for one architecture: OUT/base (Debian's Python), OUT/packages
# (dependencies) and OUT/function (ours). The Dockerfile's build stage runs it, and so does
# `make release`, which has no builder. It needs mmdebstrap and uv; nothing of ARCH is executed.
#
#   steps.sh SOURCE OUT ARCH        with SOURCE_DATE_EPOCH in the environment
#
# OUT/base and OUT/packages are used again where OUT/complete says that an earlier run wrote both.
set -eu
umask 022
source=$1 out=$2 arch=$3
site=usr/lib/python3/dist-packages
case $arch in
  amd64) platform=x86_64-manylinux_2_28 ;;
  arm64) platform=aarch64-manylinux_2_28 ;;
  *) echo "no wheels for $arch: amd64 or arm64" >&2; exit 2 ;;
esac

# Unpacked and never configured: no shell, no package manager. Scanners read var/lib/dpkg/status.d.
debian() { # debian ARCH FOLDER
  mkdir -p "$2"
  mmdebstrap --quiet --variant=extract --architectures="$1" --skip=cleanup/apt,output/dev,output/mknod \
    --include=base-files,python3.13-minimal,libpython3.13-stdlib,libstdc++6 trixie "$2.tar"
  tar --extract --file "$2.tar" --directory "$2" --exclude='./dev/*' --no-same-owner
  status=$2/var/lib/dpkg/status.d
  mkdir -p "$status"
  for deb in "$2"/var/cache/apt/archives/*.deb; do
    dpkg-deb --field "$deb" >"$status/$(dpkg-deb --field "$deb" Package)"
  done
  find "$2/usr/share/doc" ! -type d ! -name copyright -delete
  for path in boot etc/apt home var/cache var/log var/lib/apt usr/bin/mawk usr/share/bash-completion \
    usr/share/bug usr/share/gdb usr/share/info usr/share/lintian usr/share/locale usr/share/man \
    usr/share/perl5 usr/share/pixmaps; do
    rm -rf "${2:?}/$path"
  done
  rm "$2.tar"
}

# Bytecode is the same on every architecture. Its validity does not rest on times of files.
compiled() { # compiled PART
  PYTHONHOME="$python/usr" PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 \
    "$loader" --library-path "$libraries" "$python/usr/bin/python3.13" -S -m compileall -q -j 1 \
    --invalidation-mode unchecked-hash -s "$out/$1" -p / "$out/$1/usr/lib"
}

native=$(dpkg --print-architecture) python="$out/base" known=
[ ! -e "$out/complete" ] || known=yes
[ -n "$known" ] || rm -rf "${out:?}/base" "$out/packages"
rm -rf "${out:?}/native"
[ -n "$known" ] || debian "$arch" "$out/base"
[ "$arch" = "$native" ] || { python="$out/native"; debian "$native" "$python"; }
loader=$(find "$python/usr/lib" -name 'ld-linux-*.so.*' | head -n 1)
libraries=$(dirname "$(find "$python/usr/lib" -name libc.so.6)")

if [ -z "$known" ]; then
  uv pip install --quiet --target "$out/packages/$site" --python-version 3.13 --only-binary :all: \
    --python-platform "$platform" --no-deps --require-hashes --link-mode copy \
    --requirements "$source/requirements.txt"
  rm -rf "$out/packages/$site/bin" "$out/packages/$site/.lock"
  compiled base
  compiled packages
  : >"$out/complete"
fi

rm -rf "${out:?}/wheel" "$out/function"
uv build --quiet --wheel --build-constraints "$source/requirements-build.txt" --require-hashes \
  --out-dir "$out/wheel" "$source"
# The command line is for people's own machines.
python3 -m zipfile --extract "$out"/wheel/*.whl "$out/function/$site"
rm -rf "$out/function/$site/kv_offload"
compiled function
rm -rf "${out:?}/native"
