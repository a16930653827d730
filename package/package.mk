# The packages as files: the function's metadata (its runtime image is embedded by the release), and
# the Configurations with the XRDs and Compositions they bring.
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
