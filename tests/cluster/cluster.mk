# A real control plane as local processes, and the tests that run on it.

.PHONY: cluster cluster-down e2e e2e-oldest bench-cluster storm latency

cluster: venv demo-tools ## Start a fleet to play in, until Ctrl-C (eight Go programs first; with Docker: make kind)
	@$(BIN)/python -m tests.cluster.rig up

cluster-down: ## Stop what `make cluster` started
	@$(BIN)/python -m tests.cluster.rig down

e2e: venv cluster-tools ## Run the end-to-end tests on a real control plane
	@$(BIN)/pytest -c tests/cluster/pytest.ini --rootdir . $(E2E_ARGS)

e2e-oldest: venv cluster-tools ## The same on the oldest Crossplane that is supported
	@$(TOOLS_PYTHON) tests/tools/find.py build core-oldest
	@RIG_CORE=core-oldest $(BIN)/pytest -c tests/cluster/pytest.ini --rootdir . $(E2E_ARGS)

bench-cluster: venv cluster-tools ## Measure how many tiers and consumers two cores carry
	@$(BIN)/python -m tests.cluster.bench

storm: venv cluster-tools ## Count what one act costs a tier with many consumers (STORM_ARGS)
	@$(BIN)/python -m tests.cluster.storm $(STORM_ARGS)

latency: venv cluster-tools ## Measure how long news takes from one composite to another
	@$(BIN)/python -m tests.cluster.latency
