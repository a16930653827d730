# The Go programs that the tests run, pinned in tests/tools/*/go.mod and built into a shared cache
# (tests/tools/find.py says where). Nothing is rebuilt while the pins stand.

TOOLS_PYTHON ?= python3
CROSSPLANE_TOOLS := crossplane core
DEMO_TOOLS := core etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok \
	provider-kubernetes

.PHONY: crossplane demo-tools cluster-tools

crossplane: ## Build Crossplane's CLI and core from their Go modules
	@$(TOOLS_PYTHON) tests/tools/find.py build $(CROSSPLANE_TOOLS)

demo-tools: ## Build what `make cluster` runs
	@$(TOOLS_PYTHON) tests/tools/find.py build $(DEMO_TOOLS)

cluster-tools: ## Build what the end-to-end tests run
	@$(TOOLS_PYTHON) tests/tools/find.py build $(DEMO_TOOLS) crossplane lws
