"""NIXL: transfer between prefill and decode. Not composed yet: the gate knows its connectors."""
