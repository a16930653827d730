#!/bin/sh
# Write the packages of the payload image for one architecture: OUT/NAME/payload/NAME for each lock
# file NAME.txt beside this script, and OUT/program. It needs uv; nothing of ARCH is executed.
#
#   steps.sh SOURCE OUT ARCH
set -eu
umask 022
source=$1 out=$2 arch=$3
case $arch in
  amd64) platform=x86_64-manylinux_2_28 ;;
  arm64) platform=aarch64-manylinux_2_28 ;;
  *) echo "no wheels for $arch: amd64 or arm64" >&2; exit 2 ;;
esac

for lock in "$source"/package/payload/*.txt; do
  name=$(basename "$lock" .txt)
  python=${name#*-python} python=${python%%-*}
  rm -rf "${out:?}/$name"
  uv pip install --quiet --target "$out/$name/payload/$name" --python-version "$python" \
    --only-binary :all: --python-platform "$platform" --no-deps --require-hashes --link-mode copy \
    --requirements "$lock"
  rm -rf "$out/$name/payload/$name/bin" "$out/$name/payload/$name/.lock"
done
mkdir -p "$out/program/payload-program"
cp "$source/programs/payload.py" "$out/program/payload-program/"
