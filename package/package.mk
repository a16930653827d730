# A release (tools/release), what tests it, and the packages alone.
REGISTRY ?=
VERSION ?=

.PHONY: release payload release-tools image-test e2e-release verify-release kind kind-down

release-tools:
	@$(TOOLS_PYTHON) tests/tools/find.py build crossplane crane

# It pushes with PUSH=1, and signs with KEY=release.key. PROVIDER: where provider-kubernetes is.
release: export VERSION := $(VERSION)
release: export REGISTRY := $(REGISTRY)
release: export PROVIDER := $(PROVIDER)
release: export KEY := $(KEY)
release: venv release-tools ## Build image, packages, wheel, SBOM (VERSION=v0.1.0 REGISTRY=host/path)
	@test -n "$$VERSION" -a -n "$$REGISTRY" || { echo "make release VERSION=v0.1.0 REGISTRY=host/path [PUSH=1] [KEY=release.key] [PROVIDER=host/path]" >&2; exit 2; }
	@command -v mmdebstrap >/dev/null || { echo "mmdebstrap is needed: apt-get install mmdebstrap" >&2; exit 1; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.release --version "$$VERSION" --registry "$$REGISTRY" \
	  $(if $(PROVIDER),--provider "$$PROVIDER") $(if $(PUSH),--push) $(if $(KEY),--key "$$KEY") $(RELEASE_ARGS)

payload: venv release-tools ## Build and push the image for spec.payload of tiers (TAG=host/path:tag)
	@test -n "$(TAG)" || { echo "make payload TAG=host/path:tag" >&2; exit 2; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.release.payload --tag "$(TAG)" $(PAYLOAD_ARGS)

image-test: venv crossplane release-tools ## Build the image without a builder and run it (root, mmdebstrap)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -c tests/image/pytest.ini --rootdir . tests/image $(IMAGE_ARGS)

e2e-release: venv cluster-tools release-tools ## Install, upgrade, roll back and uninstall our packages
	@$(TOOLS_PYTHON) tests/tools/find.py build trust
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -c tests/release/pytest.ini --rootdir . tests/release $(E2E_ARGS)

# PULLED=1 also asks the registry for each package and its signature.
verify-release: venv $(if $(PULLED),release-tools) ## Check signature, SBOM and every byte of dist/release (PUBLIC=release.pub)
	@$(BIN)/python -m tools.release.verify --public "$(PUBLIC)" $(if $(PULLED),--pulled) $(VERIFY_ARGS)

kind: ## A kind cluster with Crossplane and our packages (Docker, kind, kubectl, helm)
	@tools/kind/kind.sh up

kind-down: ## Remove what `make kind` made
	@tools/kind/kind.sh down

PACKAGES := dist/packages
CROSSPLANE_CLI = $(shell $(TOOLS_PYTHON) tests/tools/find.py path crossplane)

.PHONY: packages

packages: crossplane ## Build the Configuration packages, and the Function's without an image
	@rm -rf $(PACKAGES) && mkdir -p $(PACKAGES)/kind $(PACKAGES)/tier $(PACKAGES)/standalone $(PACKAGES)/function
	@cp package/configuration-tier/crossplane.yaml $(PACKAGES)/tier/
	@cp package/configuration-kind/crossplane.yaml $(PACKAGES)/kind/
	@cp xrd/kvoffloadtier.yaml $(PACKAGES)/kind/definition.yaml
	@cp compositions/kvoffloadtier.yaml $(PACKAGES)/tier/composition.yaml
	@cp package/configuration-standalone/crossplane.yaml $(PACKAGES)/standalone/
	@for kind in inferencecluster modeldeployment; do \
	  cp xrd/standalone/$$kind.yaml $(PACKAGES)/standalone/$$kind-definition.yaml; \
	  cp compositions/standalone/$$kind.yaml $(PACKAGES)/standalone/$$kind-composition.yaml; \
	done
	@cp -r package/crossplane.yaml package/input $(PACKAGES)/function/
	@for name in kind tier standalone function; do \
	  $(CROSSPLANE_CLI) xpkg build --package-root=$(PACKAGES)/$$name \
	    --package-file=$(PACKAGES)/kv-offload-$$name.xpkg || exit 1; \
	done
	@ls $(PACKAGES)/*.xpkg
