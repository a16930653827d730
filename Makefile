# Two commands matter on a fresh machine: `make render` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
# uv shows its progress on a terminal, and is quiet in a log.
UV_QUIET := $(shell test -t 2 || echo --quiet)
PYTHON ?= python3
# Without bytecode, each of the many processes that tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

include tests/tools/tools.mk
-include package/package.mk
-include tests/alerts/alerts.mk
-include tests/conformance/conformance.mk
-include tests/serve/serve.mk
-include tests/cluster/cluster.mk
-include tests/modelplane/modelplane.mk

.PHONY: help venv render test-render test goldens generate lint types bench lock fuzz world model evictor-test docs
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | sort | expand -t24

venv: $(VENV)/.ready ## Set up the development environment

# uv is used where it is installed; a bare machine gets it into the environment itself.
# Every package has its version and hashes in requirements-dev.txt (make lock).
$(VENV)/.ready: pyproject.toml requirements-build.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "Creating $(VENV) (once)" >&2; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m uv --version >/dev/null 2>&1 || { echo "Installing uv" >&2; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.txt; }
	@echo "Installing the packages of requirements-dev.txt" >&2
	@$(BIN)/python -m uv pip install $(UV_QUIET) --python $(BIN)/python --require-hashes --no-deps -r requirements-dev.txt >&2
	@$(BIN)/python -m uv pip install $(UV_QUIET) --python $(BIN)/python --build-constraints requirements-build.txt --no-deps -e . >&2
	@touch $@

# requirements.txt is what the image holds. Versions stay while they fit: LOCK_ARGS=--upgrade moves them.
LOCK = $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-header --no-annotate --no-emit-index-url $(LOCK_ARGS)
lock: venv ## Write requirements*.txt anew: versions and hashes of every dependency
	@printf '%s\n' 'uv==0.13.8' 'hatchling==1.29.0' editables | $(LOCK) - --output-file requirements-build.txt
	@$(LOCK) pyproject.toml --group dev --group cluster --group release --group docs --output-file requirements-dev.txt
	@$(LOCK) pyproject.toml --constraints requirements-dev.txt --output-file requirements.txt \
	  $(foreach each,rich markdown-it-py mdurl pygments,--no-emit-package $(each))

# ENGINE=crossplane renders through Crossplane's own engine, and prints the same bytes.
# Without OUTPUT (tree, yaml, json) a terminal gets the tree and a pipe YAML. XRS are files of our
# own kinds, each beside a folder `required`.
XRS ?= example/lmcache/tier.yaml example/standalone/modeldeployment.yaml
ENGINE ?= embedded
OUTPUT ?=

ifeq ($(ENGINE),crossplane)
render: venv crossplane ## A tier and a wired engine, without a cluster (OUTPUT=yaml, ENGINE=crossplane)
	@$(BIN)/python -m tests.render.example $(XRS)
else
render: venv
	@set -e; for xr in $(XRS); do \
	  $(BIN)/kv-offload render $$xr --required $$(dirname $$xr)/required $(if $(OUTPUT),--output $(OUTPUT)); \
	done
endif

test-render: venv ## Render cases, both engines (Crossplane's own: after make crossplane)
	@$(BIN)/python -m pytest tests/render $(TEST_RENDER_ARGS)

# Every golden that a test compares with. What they hold is a decision: read the difference.
# The fixtures in tests/unit/composers/releases are of releases, and never written anew.
goldens: venv ## Write the goldens anew (GOLDENS=consumer/wired: of these render cases)
	@$(BIN)/python -m tests.render.run --engine embedded --update $(GOLDENS)
	@$(BIN)/python -m tests.unit.backends.goldens

# A file stays on one process: its fixtures are made once. Files run in their order, not the one with
# the fewest tests last: those are the longest. COVERAGE=1 takes twice the time.
test: venv ## Unit tests, on all cores (TEST_ARGS=tests/unit/api, COVERAGE=1)
	@$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(COVERAGE:%=--cov) $(TEST_ARGS)

generate: venv ## XRDs, the Input's CRD, the generated pages
	@$(BIN)/python -m kv_offload.crds.generate
	@$(BIN)/python -m kv_offload.docs
	@$(BIN)/python -m tests.corpus.judged

bench: venv ## What a call costs, beside an empty function
	@$(BIN)/python -m tests.bench.run $(if $(CALLS),--calls $(CALLS))
	@$(BIN)/python -m tests.bench.crossings --check

docs: venv ## The site in dist/site, with search; a broken link fails it
	@$(BIN)/python -m kv_offload.docs.site
	@$(BIN)/properdocs build

PYTHON_FOLDERS := function kv_offload programs tests tools
lint: venv types ## Style, formatting and types
	@$(BIN)/ruff check $(PYTHON_FOLDERS) && $(BIN)/ruff format --check $(PYTHON_FOLDERS)
	@$(BIN)/hadolint --failure-threshold info Dockerfile package/payload/Dockerfile && $(BIN)/shellcheck package/*/steps.sh tools/kind/*.sh

# Real processes and a million files; root, to mount file systems in memory.
evictor-test: venv ## The evictor of file tiers, at size (minutes)
	@$(BIN)/python -m pytest -c tests/evictor/pytest.ini --rootdir . tests/evictor $(PYTEST_ARGS)

types: venv ## Types of the package (mypy, strict)
	@$(BIN)/mypy

fuzz: venv ## Fuzz scripts, their cost, calls, whole composites, fleets, decisions over time (RUNS=100000)
	@$(BIN)/python -m tests.fuzz.scripts --runs $(or $(RUNS),100000)
	@$(BIN)/python -m tests.fuzz.slow --runs $(or $(SLOW_RUNS),1200)
	@$(BIN)/python -m tests.fuzz.documents --runs $(or $(RUNS),100000) --seconds $(or $(SECONDS_OF_CALLS),120)
	@$(BIN)/python -m tests.fuzz.composites --runs $(or $(RUNS),100000)
	@$(BIN)/python -m tests.fuzz.worst
	@$(BIN)/python -m tests.fuzz.over_time --runs $(or $(PROGRAMS),60)
	@$(BIN)/python -m tests.fuzz.fleets --runs $(or $(FLEETS),200)

world: venv ## Play histories of faults and edits in simulated fleets (RUNS=10000, SEED=0)
	@$(BIN)/python -m tests.world --runs $(or $(RUNS),10000) --seed $(or $(SEED),0)

model: venv ## Explore every order of acts in a fleet of three clusters (DEPTH=12: ten minutes)
	@$(BIN)/python -m tests.world.model --depth $(or $(DEPTH),8)
