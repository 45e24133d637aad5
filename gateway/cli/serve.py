"""`gateway serve`: the running gateway."""

from __future__ import annotations

import structlog

from gateway.app import opened
from gateway.cli import logs
from gateway.config import Config

log = structlog.get_logger(__name__)


async def serve(config: Config) -> None:
    """Run every configured chain until cancelled."""
    logs.set_up(config.log_level)
    async with opened(config) as gateway:
        log.info("serving", workspace=config.workspace, chains=sorted(gateway.adapters))
        await gateway.run()
