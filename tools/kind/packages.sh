#!/bin/sh
# Make a release of a checkout's HEAD and push it; its manifests go to OUT.
#
#   packages.sh SOURCE OUT VERSION REGISTRY PROVIDER
#
# `make kind` runs it in a container with Go, as root. SOURCE is only read.
set -eu
source=$1 out=$2 version=$3 registry=$4 provider=$5
apt-get update -qq
apt-get install -y -qq --no-install-recommends git make mmdebstrap python3 python3-venv >/dev/null
work=$(mktemp -d)
# The checkout belongs to somebody else.
git config --global --add safe.directory '*'
git clone --quiet "$source" "$work/clone"
cd "$work/clone"
make release VERSION="$version" REGISTRY="$registry" PROVIDER="$provider" PUSH=1 \
  RELEASE_ARGS="--platforms $(dpkg --print-architecture)"
cp dist/release/install.yaml dist/release/standalone.yaml "$out/"
rm -rf "$work"
