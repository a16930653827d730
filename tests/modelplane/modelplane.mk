# Behind Modelplane's own functions. Included by the root Makefile; not part of CI, which has no
# checkout. MODELPLANE=DIR: a checkout of v0.3.1. MODELPLANE_ARGS=--update writes the verdicts anew.
.PHONY: modelplane modelplane-rig modelplane-venv

modelplane-venv: venv
	@test -z "$(MODELPLANE)" || $(BIN)/python -m uv pip install --quiet --python $(BIN)/python --group modelplane

modelplane: modelplane-venv ## Render Modelplane's deployments through its functions and ours (MODELPLANE=DIR)
	@MODELPLANE="$(MODELPLANE)" $(BIN)/python -m pytest -q tests/modelplane --ignore tests/modelplane/rig $(MODELPLANE_ARGS)

# Two stories of about ten minutes, each on a rig of its own; a transcript is printed as they go.
modelplane-rig: modelplane-venv cluster-tools ## Install Modelplane and ours on a real control plane (MODELPLANE=DIR)
	@for story in changes leaving; do \
	  MODELPLANE="$(MODELPLANE)" $(BIN)/python -m pytest -c tests/cluster/pytest.ini --rootdir . -q -s -x \
	    tests/modelplane/rig/test_$$story.py $(MODELPLANE_ARGS) || exit 1; \
	done
