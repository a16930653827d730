"""Native: vLLM's own offloading. Not composed yet: the gate knows its connectors."""
