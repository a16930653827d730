"""Modelplane itself on the rig, with ours installed beside it as the README says.

    make modelplane-rig MODELPLANE=DIR

Its packaged kinds come from a loopback registry by Crossplane's package manager, and its functions
run as processes. Stood in for are: its serving stack (Helm charts of gateways and drivers, which
run nowhere here; stack.py) and what a real cluster's drivers would report (site.py).
"""
