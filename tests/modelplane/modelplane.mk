# Behind Modelplane's own functions. Included by the root Makefile; not part of CI, which has no
# checkout. MODELPLANE=DIR: a checkout of v0.3.1. MODELPLANE_ARGS=--update writes the verdicts anew.
.PHONY: modelplane
modelplane: venv ## Render Modelplane's deployments through its functions and ours (MODELPLANE=DIR)
	@test -z "$(MODELPLANE)" || $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --group modelplane
	@MODELPLANE="$(MODELPLANE)" $(BIN)/python -m pytest -q tests/modelplane $(MODELPLANE_ARGS)
