"""Keep directories of cached blocks under their limits: python3 -m evictor CONFIG

A program of its own, for whatever image is there: Python 3.9 and its standard library. Tiers mount
this folder from a ConfigMap; nothing of the function is imported here. CONFIG is JSON,
`{"directories": [...], ...}`; `Directory` and `main` name the keys.
"""
