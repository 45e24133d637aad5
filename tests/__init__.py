"""Tests of every package, from pure rules to the real process."""
