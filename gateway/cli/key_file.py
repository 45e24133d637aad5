"""`gateway keys …`: the local signer's files."""

from __future__ import annotations

from gateway.config import Config
from gateway.signers import keyfile
from gateway.signers.local import LocalSigner


async def create(config: Config) -> None:
    """Make key file and journal. ConfigError, SignerUnavailable: why not."""
    settings = config.signer
    password = keyfile.read_password(file=settings.password_file, variable=settings.password_env)
    await LocalSigner.create(settings.key_file, settings.journal, password)
    print(f"made {settings.key_file} and {settings.journal}; keep copies of both, and never of the password with them")
