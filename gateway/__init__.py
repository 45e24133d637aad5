"""The withdrawal gateway: one life cycle from request to finality, over every configured chain."""
