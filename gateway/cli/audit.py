"""`gateway audit`: print what the audit found."""

from __future__ import annotations

import json

from gateway.app import opened
from gateway.audit import audit as examine
from gateway.config import Config
from gateway.core.errors import NodeUnavailable


async def audit(config: Config, *, as_json: bool) -> bool:
    """Print the report; True when nothing differs and everything could be checked."""
    async with opened(config, signs=False) as gateway:
        try:
            down = []
            for name, adapter in gateway.adapters.items():
                try:
                    await adapter.node.open()
                except NodeUnavailable as error:
                    down.append(f"{name} ({error.message})")
            report = await examine(gateway.store, gateway.adapters)
        finally:
            for adapter in gateway.adapters.values():
                await adapter.node.close()
    if as_json:
        print(
            json.dumps(
                {
                    "withdrawals": report.withdrawals,
                    "blocks": report.blocks,
                    "findings": [{"about": f.about, "text": f.text} for f in report.findings],
                    "unchecked": list(report.unchecked),
                }
            )
        )
    else:
        for finding in report.findings:
            print(f"{finding.about}: {finding.text}")
        for name in sorted({*report.unchecked, *down}):
            print(f"not checked on chain: {name}")
        print(
            f"{report.withdrawals} withdrawals and {report.blocks} blocks checked, {len(report.findings)} differences"
        )
    return not report.findings and not report.unchecked
