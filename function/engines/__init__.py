"""Inference engines, one folder each: how each is recognised, and how its flags are read and set.

`registry.kind(name)` gives an engine's `EngineKind`. Reading flags and planning edits raise Refused
and change nothing. What engines share stands in this package itself.
"""
