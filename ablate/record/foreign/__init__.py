"""Runs that never saw ablate: read from what they left behind, written as a store."""
