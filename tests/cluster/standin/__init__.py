"""A stand-in for the platform whose composites our step wires."""
