# Prometheus' own tool on the rules that tiers emit, on those of the function, and on the queries of
# the dashboards. Included by the root Makefile.
.PHONY: alerts-tools alerts-test
alerts-tools: ## Build promtool (once)
	@$(TOOLS_PYTHON) tests/tools/find.py build promtool

alerts-test: venv alerts-tools ## Every alert fires where it should, and only there
	@$(BIN)/python -m pytest -c tests/alerts/pytest.ini --rootdir . tests/alerts $(PYTEST_ARGS)
