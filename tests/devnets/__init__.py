"""Tests of the local networks themselves: what other tests stand on."""
