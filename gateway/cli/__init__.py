"""The command line: what an operator, a developer and a demo call."""
