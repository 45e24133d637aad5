"""Local networks: start them, fund accounts on them, move their chains, break them.

Shares no code with the gateway, so that what it says about a chain is an independent witness.
"""
