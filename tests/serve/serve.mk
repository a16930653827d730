# The serving suite: real engines on a CPU, through the pods that we wire and the tiers that we
# compose. Included by the root Makefile; environments are the conformance suite's.

.PHONY: serve-test
serve-test: conformance-envs ## Serve real tokens with every engine and backend (PAIR=vllm-mooncake; LONG=1: faults too)
	$(BIN)/python -m tests.conformance.run tests/serve $(PAIR:%=--pair=%) $(LONG:%=--long) $(SERVE_ARGS)
