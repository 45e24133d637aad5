"""Signers: where private keys live. Nothing outside this package ever holds one."""
