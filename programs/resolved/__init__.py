"""A digest of what an engine resolved at its start: weights, and each engine's configuration."""
