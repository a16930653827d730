#!/usr/bin/env bash
# A kind cluster with Crossplane, provider-kubernetes and our packages: kind.sh up|down
#
# The packages are those of `make release`, built in a container and pushed to a registry beside the
# cluster. A second run goes on where the first one stopped.
set -euo pipefail
name=kv-offload registry=kv-offload-registry
crossplane=2.4.0 provider=xpkg.crossplane.io/crossplane-contrib/provider-kubernetes
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
context=kind-$name

say() { printf '\n== %s\n' "$*"; }
kube() { kubectl --context "$context" "$@"; }

missing() { # missing COMMAND...: name every command that is not there
  local each absent=()
  for each in "$@"; do command -v "$each" >/dev/null || absent+=("$each"); done
  [ "${#absent[@]}" = 0 ] && return 1
  echo "make kind needs ${absent[*]}: install and start again. Without Docker use make cluster." >&2
}

cluster() {
  say "1 of 6: kind cluster $name (three nodes)"
  if kind get clusters 2>/dev/null | grep -qx "$name"; then echo "it exists"; return; fi
  kind create cluster --name "$name" --config "$here/cluster.yaml" --wait 5m
}

# Crossplane speaks HTTP to a private address. The nodes' containerd has to be told.
start_registry() {
  say "2 of 6: registry on the cluster's network"
  # A new one each time: `make release` does not push a version over other packages of that version.
  docker rm --force "$registry" >/dev/null 2>&1 || true
  docker run --detach --network kind --name "$registry" registry:2 >/dev/null
  address=$(docker inspect --format '{{.NetworkSettings.Networks.kind.IPAddress}}' "$registry"):5000
  local node
  for node in $(kind get nodes --name "$name"); do
    docker exec -i "$node" sh -c "mkdir -p /etc/containerd/certs.d/$address &&
      cat >/etc/containerd/certs.d/$address/hosts.toml" <<<"[host.\"http://$address\"]"
  done
  echo "$address"
}

start_crossplane() {
  say "3 of 6: Crossplane $crossplane"
  helm upgrade --install crossplane crossplane --repo https://charts.crossplane.io/stable \
    --version "$crossplane" --kube-context "$context" --namespace crossplane-system \
    --create-namespace --set 'args={--circuit-breaker-burst=1000,--circuit-breaker-refill-rate=10}' \
    --wait --timeout 10m
}

make_packages() {
  say "4 of 6: packages of HEAD (Go programs at the first time)"
  local version
  version=v$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
  mkdir -p "$root/dist/kind"
  docker run --rm --network kind --volume "$root:/source:ro" --volume "$root/dist/kind:/out" \
    --volume kv-offload-go:/go --env XDG_CACHE_HOME=/cache --volume kv-offload-cache:/cache \
    golang:1.26-trixie /source/tools/kind/packages.sh /source /out "$version" "$address" "$provider"
}

install_packages() {
  say "5 of 6: packages, by Crossplane's package manager"
  kube apply -f "$root/dist/kind/install.yaml" -f "$root/dist/kind/standalone.yaml"
  kube wait --for=condition=Healthy --timeout=10m functions.pkg.crossplane.io,configurations.pkg.crossplane.io --all
  kube wait --for=condition=Healthy --timeout=10m providers.pkg.crossplane.io --all
  kube wait --for=condition=Established --timeout=5m compositeresourcedefinitions.apiextensions.crossplane.io --all
}

declare_fleet() {
  say "6 of 6: the cluster itself as a workload cluster, a tier, a workload"
  local each
  for each in modelplane-system team-a; do
    kube create namespace "$each" --dry-run=client -o yaml | kube apply -f -
  done
  kind get kubeconfig --internal --name "$name" |
    kube create secret generic kubeconfig-kind --namespace modelplane-system \
      --from-file=kubeconfig=/dev/stdin --dry-run=client -o yaml | kube apply -f -
  kube apply -f "$here/fleet.yaml"
  kube wait --for=condition=Ready --timeout=5m inferenceclusters.modelplane.ai/kind
  kube wait --for=condition=Ready --timeout=5m --namespace modelplane-system kvoffloadtiers.modelplane.ai/chat
  kube wait --for=condition=KVOffloadReady --timeout=5m --namespace team-a modeldeployments.modelplane.ai/qwen
}

up() {
  missing docker kind kubectl helm && exit 1
  docker info >/dev/null 2>&1 || { echo "make kind: Docker does not run, or you may not use it" >&2; exit 1; }
  cat <<END
It makes a cluster of three containers, installs Crossplane, builds our packages in a container (two
Go programs first) and installs them. Expect many minutes; another run takes what is there.
END
  cluster
  start_registry
  start_crossplane
  make_packages
  install_packages
  declare_fleet
  cat <<END

Everything is there. Engine pods stay Pending: these nodes have no GPU. Try:
  kubectl --context $context get kvot,modeldeployments -A -o wide
  kubectl --context $context get deployments -n team-a -o yaml    # what was written into the pod
  make kind-down
END
}

down() {
  missing docker kind && exit 1
  kind delete cluster --name "$name"
  docker rm --force "$registry" >/dev/null 2>&1 || true
  docker volume rm --force kv-offload-go kv-offload-cache >/dev/null
}

case ${1:-} in
  up | down) "$1" ;;
  *) echo "usage: kind.sh up|down" >&2; exit 2 ;;
esac
