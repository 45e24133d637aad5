"""The real process, from outside."""
