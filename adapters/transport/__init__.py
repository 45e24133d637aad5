"""What all adapters share to talk to nodes: one JSON-RPC client and one list of endpoints."""
