"""Measures against the performance targets: `make bench`."""
