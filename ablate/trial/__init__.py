"""Runs one trial: the trainable protocol, numerics policy, provenance, and the process it runs in. No Ray."""
