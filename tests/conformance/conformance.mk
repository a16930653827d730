# The conformance suite: our output against the real engines, caches and servers. Included by the
# root Makefile. Environments are built once, outside the checkout, and shared by later clones.
CONFORMANCE := tests/conformance
CONFORMANCE_GPU_PACKAGES := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas \
  nvidia-cuda-cccl nvidia-cuda-cupti nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 \
  nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 \
  nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx

.PHONY: conformance conformance-tools conformance-envs conformance-deps conformance-lock
conformance: conformance-tools conformance-envs ## Run the real engines, LMCache and Mooncake on what we emit
	$(BIN)/python -m tests.conformance.run $(PYTEST_ARGS)

conformance-tools: ## Build what the conformance suite needs of the Go programs (etcd; once)
	@$(TOOLS_PYTHON) tests/tools/find.py build etcd

conformance-envs: venv conformance-deps ## Build the engines' environments (3 GB; once)
	@$(BIN)/python -m tests.conformance.envs

conformance-deps: venv ## Check for the Debian packages of the conformance suite; as root, install them
	@$(BIN)/python -m tests.conformance.debian

conformance-lock: venv ## Resolve the conformance requirements anew
	@cd $(CONFORMANCE)/requirements && ../../../$(BIN)/python -m uv pip compile --quiet \
	  --no-header --no-annotate --universal --python-version 3.11 python.in --override overrides.txt \
	  $(CONFORMANCE_GPU_PACKAGES:%=--no-emit-package %) --output-file python.txt
