# A release (tools/release), what tests it, and the packages alone.
RELEASE_TOOLS := crane cosign syft
REGISTRY ?=
VERSION ?=

.PHONY: release release-tools image-test image-tools e2e-release verify-release

image-tools: crossplane
	@$(TOOLS_PYTHON) tests/tools/find.py build crane

release-tools: image-tools ## Build what signs and lists a release
	@$(TOOLS_PYTHON) tests/tools/find.py build $(RELEASE_TOOLS)

# It pushes with PUSH=1, and signs with KEY=cosign.key. PROVIDER: where provider-kubernetes is.
release: export VERSION := $(VERSION)
release: export REGISTRY := $(REGISTRY)
release: export PROVIDER := $(PROVIDER)
release: export KEY := $(KEY)
release: venv release-tools ## Build image, packages, wheel, SBOM (VERSION=v0.1.0 REGISTRY=host/path)
	@test -n "$$VERSION" -a -n "$$REGISTRY" || { echo "make release VERSION=v0.1.0 REGISTRY=host/path [PUSH=1] [KEY=cosign.key] [PROVIDER=host/path]" >&2; exit 2; }
	@git diff --quiet HEAD || { echo "Commit first: a release is made of HEAD" >&2; exit 2; }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.release --version "$$VERSION" --registry "$$REGISTRY" \
	  $(if $(PROVIDER),--provider "$$PROVIDER") $(if $(PUSH),--push) $(if $(KEY),--key "$$KEY") $(RELEASE_ARGS)

image-test: venv image-tools ## Build the image without a builder and run it (root, mmdebstrap)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -c tests/image/pytest.ini --rootdir . tests/image $(IMAGE_ARGS)

e2e-release: venv cluster-tools image-tools ## Install, upgrade, roll back and uninstall our packages
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -c tests/release/pytest.ini --rootdir . tests/release $(E2E_ARGS)

verify-release: release-tools ## Check the signature and every byte of dist/release (PUBLIC=cosign.pub)
	@cd dist/release && $(CURDIR)/tests/tools/bin/cosign verify-blob --key $(abspath $(PUBLIC)) --insecure-ignore-tlog \
	  --bundle SHA256SUMS.sigstore.json SHA256SUMS && sha256sum --check --quiet SHA256SUMS

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
