"""A gateway over local networks in one folder: what the demo runs, and what tests begin with."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from db import upgrade
from devnets import registry
from devnets.network import Devnet, Interval, Manual, Mining
from gateway.config import Config, load
from gateway.signers import keyfile
from gateway.signers.local import LocalSigner

CONFIG = "gateway.toml"

CHAINS: Mapping[str, Mapping[str, Any]] = {
    "evm": {"asset": "ETH", "chain_id": 31337, "poll_interval": 0.05},
    "bitcoin": {"poll_interval": 0.1, "finality_depth": 6},
}
"""What each family's adapter is told about its local network, besides where it is."""


@asynccontextmanager
async def networks(
    chains: Sequence[str], folder: Path, *, mining: Mining | None = None
) -> AsyncIterator[dict[str, Devnet]]:
    """Start the local networks, stop them at the end."""
    async with AsyncExitStack() as stack:
        running = {}
        for chain in chains:
            devnet = registry.create(chain, folder / chain, mining=mining or Manual())
            stack.push_async_callback(devnet.stop)
            await devnet.start()
            running[chain] = devnet
        yield running


async def prepare(
    folder: Path,
    devnets: Mapping[str, Devnet],
    *,
    vaults: Sequence[str] = ("hot-1",),
    store: str = "sqlite:///gateway.db",
    urls: Mapping[str, Sequence[str]] | None = None,
    chain_settings: Mapping[str, Mapping[str, Any]] | None = None,
    timing: Mapping[str, float] | None = None,
) -> Config:
    """Write a configuration for these networks into `folder`, with key file, journal and database.

    What is there already is kept, so that a gateway can be started again on it. `urls`: other addresses of the nodes (a
    proxy in front of them).
    """
    config = _write(folder, _toml(devnets, vaults, store, urls or {}, chain_settings or {}, timing or {}))
    if not config.signer.key_file.exists():
        secret = keyfile.read_password(file=config.signer.password_file)
        await LocalSigner.create(config.signer.key_file, config.signer.journal, secret, work=keyfile.CHEAP)
    await upgrade.upgrade(config.store.url)
    return config


def _write(folder: Path, text: str) -> Config:
    folder.mkdir(parents=True, exist_ok=True)
    password = folder / "password"
    if not password.exists():
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
    path = folder / CONFIG
    path.touch(mode=0o600)  # node addresses may hold credentials
    path.write_text(text)
    return load(path)


def _toml(
    devnets: Mapping[str, Devnet],
    vaults: Sequence[str],
    store: str,
    urls: Mapping[str, Sequence[str]],
    chain_settings: Mapping[str, Mapping[str, Any]],
    timing: Mapping[str, float],
) -> str:
    lines = ['workspace = "main"', "", "[store]", f"url = {_value(store)}", ""]
    lines += ["[signer]", 'key_file = "keys.json"', 'journal = "signer.journal"', 'password_file = "password"', ""]
    paces = {"poll": 0.5, "lane_poll": 0.2, "resend_after": 5.0, "retry_pause": 0.2, **timing}
    lines += ["[timing]", *(f"{name} = {value}" for name, value in paces.items()), ""]
    for name, devnet in devnets.items():
        settings: dict[str, Any] = {"urls": list(urls.get(name, [devnet.url])), **CHAINS[name]}
        if name == "bitcoin":
            settings["coin"] = devnet.identity
        settings |= chain_settings.get(name, {})
        lines += ["[[chain]]", f'name = "{name}"', f'family = "{name}"']
        lines += [*(f"{key} = {_value(value)}" for key, value in settings.items()), ""]
    for vault in vaults:
        lines += ["[[vault]]", f'name = "{vault}"', f"chains = {_value(list(devnets))}", ""]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


EVERY_HALF_SECOND = Interval(0.5)
