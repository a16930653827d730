# The serving suite: real engines on a CPU, through the pods that we wire and the tiers that we
# compose. Included by the root Makefile; environments are the conformance suite's.

.PHONY: serve-tools serve-test serve-proofs gpu-kit gpu
serve-tools: ## Build what the serving suite needs of the Go programs (llm-d's library; once)
	@$(TOOLS_PYTHON) tests/tools/find.py build router

serve-test: conformance-envs serve-tools ## Serve real tokens with every engine and backend (PAIR=vllm-mooncake; LONG=1: faults too; PROOFS=1: keep what was seen)
	$(BIN)/python -m tests.conformance.run tests/serve $(PAIR:%=--pair=%) $(LONG:%=--long) $(PROOFS:%=--proofs) $(SERVE_ARGS)
	$(if $(PROOFS),$(BIN)/python -m tests.serve.proofs)

serve-proofs: venv ## Write docs/proofs.md from what was seen (tests/serve/proven.json)
	$(BIN)/python -m tests.serve.proofs

gpu-kit: venv ## Pack what a machine with a GPU and no network lacks for `make gpu` (KIT=folder)
	$(BIN)/python -m tests.serve.gpu_kit pack $(KIT)

# On that machine there is no network, so nothing is installed: Python 3.12 and the kit are enough.
GPU := .gpu
gpu: ## Serve tokens on a machine with an NVIDIA GPU, from a kit (KIT=folder, PAIR, LONG as serve-test; PROOFS=file for what was seen)
	python3 -m tests.serve.gpu_kit unpack $(KIT) $(GPU)
	PATH="$$PATH:$(CURDIR)/$(GPU)/packages/system/bin" LD_LIBRARY_PATH="$${LD_LIBRARY_PATH:+$$LD_LIBRARY_PATH:}$(CURDIR)/$(GPU)/libraries" \
	  $(GPU)/suite/bin/python3 -m tests.conformance.run tests/serve --gpu $(CURDIR)/$(GPU)/engines $(PAIR:%=--pair=%) $(LONG:%=--long) $(PROOFS:%=--proofs-in=%) $(SERVE_ARGS)
