# The Go programs that the tests run, pinned in tests/tools/*/go.mod and built into a shared cache
# (tests/tools/find.py says where). Nothing is rebuilt while the pins stand.

TOOLS_PYTHON ?= python3
CROSSPLANE_TOOLS := crossplane core
CLUSTER_TOOLS := $(CROSSPLANE_TOOLS) etcd kube-apiserver kube-controller-manager kube-scheduler \
	kubectl kwok provider-kubernetes lws

.PHONY: crossplane cluster-tools

crossplane: ## Build Crossplane's CLI and core from their Go modules
	@$(TOOLS_PYTHON) tests/tools/find.py build $(CROSSPLANE_TOOLS)

cluster-tools: ## Build everything that `make cluster` runs
	@$(TOOLS_PYTHON) tests/tools/find.py build $(CLUSTER_TOOLS)
