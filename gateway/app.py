"""The composition root: from a configuration to a running gateway; only here (and in the CLI) all parts meet."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import structlog

from adapters import registry
from db.store import SqlStore
from gateway import crashpoints, journal
from gateway.chain_loop import ChainLoop
from gateway.clock import utc_now
from gateway.config import Config, VaultConfig
from gateway.core.adapter import Adapter
from gateway.core.chain import Account
from gateway.core.errors import ConfigError, SignerUnavailable, StoreError
from gateway.core.ids import AccountId, VaultId, WorkspaceId, uuid7
from gateway.core.records import Vault, Workspace
from gateway.core.signing import Signer
from gateway.core.store import Store, Writer
from gateway.genesis import Genesis
from gateway.intake import Intake
from gateway.signers import keyfile
from gateway.signers.elsewhere import Elsewhere
from gateway.signers.local import LocalSigner
from gateway.tracker import Pace

log = structlog.get_logger(__name__)


class Gateway:
    """A configured gateway: open store, open signer, every chain's adapter. `run` makes it work."""

    def __init__(
        self, config: Config, store: Store, signer: Signer, adapters: Mapping[str, Adapter], workspace: WorkspaceId
    ) -> None:
        self.config = config
        self.store = store
        self.signer = signer
        self.adapters = adapters
        self.workspace = workspace
        self.intake = Intake(store, adapters, workspace, now=utc_now)
        timing = config.timing
        owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        pace = Pace(poll=timing.poll, resend_after=timing.resend_after)
        genesis = Genesis()
        self.loops = {
            name: ChainLoop(
                store,
                adapter,
                signer,
                owner=owner,
                now=utc_now,
                pace=pace,
                genesis=genesis,
                lane_poll=timing.lane_poll,
                lease=timing.lease,
                pause=timing.retry_pause,
            )
            for name, adapter in adapters.items()
        }

    async def run(self) -> None:
        """Run every chain until cancelled. ConfigError: a node of the wrong chain answered."""
        await journal.halt_what_is_behind(self.store, self.signer, now=utc_now())
        await journal.write_ahead_what_was_signed(self.store, self.signer, self.adapters, now=utc_now())
        try:
            async with asyncio.TaskGroup() as group:
                for name, loop in self.loops.items():
                    group.create_task(loop.run(), name=name)
        except* ConfigError as wrong:
            raise ConfigError([p for e in _leaves(wrong) for p in e.problems]) from None
        finally:
            for loop in self.loops.values():
                with suppress(StoreError):  # the leases run out by themselves
                    await asyncio.shield(loop.release())

    async def vault(self, name: str) -> Vault:
        """Return the vault of this name. ConfigError: there is none."""
        async with self.store.read() as reader:
            for vault in await reader.vaults():
                if vault.workspace_id == self.workspace and vault.name == name:
                    return vault
        raise ConfigError([f"vault {name!r} is not configured"])

    async def account(self, vault: str, chain: str) -> Account:
        """Return a vault's account on a chain. ConfigError: there is none."""
        found = await self.vault(vault)
        async with self.store.read() as reader:
            for account in await reader.accounts(chain):
                if account.vault_id == found.id:
                    return account
        raise ConfigError([f"vault {vault!r} has no account on {chain!r}"])


@asynccontextmanager
async def opened(config: Config, *, signs: bool = True) -> AsyncIterator[Gateway]:
    """Open everything that the configuration names, close it at the end. ConfigError: all that is wrong.

    Not `signs`: leave the signer, which one process has alone, to a gateway that runs; it is opened all the same when
    an account of the configuration is still to be made.
    """
    try:
        crashpoints.arm(os.environ.get("GATEWAY_CRASH_AT"))
    except ValueError as error:
        raise ConfigError([f"GATEWAY_CRASH_AT: {error}"]) from None
    adapters, problems = _adapters(config)
    signer: LocalSigner | None = None
    store: Store | None = None
    workspace: WorkspaceId | None = None
    try:
        try:
            store = SqlStore(config.store.url)
            await store.open()
            if not signs:
                workspace = await _settled(config, store)
        except ConfigError as error:
            problems += [f"store: {p}" for p in error.problems]
        except StoreError as error:
            problems.append(f"store: {error}")
        try:
            if workspace is None:
                signer = await open_signer(config)
        except ConfigError as error:
            problems += error.problems
        except SignerUnavailable as error:
            problems.append(f"signer: {error}")
        if problems or store is None:
            raise ConfigError(problems)
        if signer is not None:
            workspace = await _settle_places(config, store, signer, adapters)
        assert workspace is not None
        yield Gateway(config, store, signer or Elsewhere(), adapters, workspace)
    finally:
        if signer is not None:
            await signer.close()
        if store is not None:
            await store.close()


def chain_problems(family: str, name: str, settings: Mapping[str, Any]) -> Sequence[str]:
    """Say what is wrong with one chain's own settings."""
    try:
        registry.create(family, name, settings)
    except ConfigError as error:
        return error.problems
    return ()


async def open_signer(config: Config) -> LocalSigner:
    """Open the configured signer. ConfigError: its password; SignerUnavailable: its files."""
    settings = config.signer
    password = keyfile.read_password(file=settings.password_file, variable=settings.password_env)
    return await LocalSigner.open(settings.key_file, settings.journal, password)


def _adapters(config: Config) -> tuple[dict[str, Adapter], list[str]]:
    adapters: dict[str, Adapter] = {}
    problems: list[str] = []
    for chain in config.chain:
        try:
            adapters[chain.name] = registry.create(chain.family, chain.name, chain.settings)
        except ConfigError as error:
            problems += error.problems
    assets: dict[str, str] = {}
    for name, adapter in adapters.items():
        first = assets.setdefault(adapter.info.asset, name)
        if first != name:
            problems.append(f"chain {name}: asset {adapter.info.asset} belongs to chain {first} already")
    return adapters, problems


async def _settled(config: Config, store: Store) -> WorkspaceId | None:
    """Return the workspace when the store has every vault and account of the configuration already."""
    async with store.read() as reader:
        workspace = next((w.id for w in await reader.workspaces() if w.name == config.workspace), None)
        vaults = {v.name: v.id for v in await reader.vaults() if v.workspace_id == workspace}
        accounts = {(a.vault_id, a.chain) for a in await reader.accounts()}
    wanted = [(vaults.get(vault.name), chain) for vault in config.vault for chain in vault.chains]
    return workspace if all(place in accounts for place in wanted) else None


async def _settle_places(config: Config, store: Store, signer: Signer, adapters: Mapping[str, Adapter]) -> WorkspaceId:
    """Have workspace, vaults and accounts of the configuration in the store."""
    async with store.write() as writer:
        workspaces = {w.name: w.id for w in await writer.workspaces()}
        workspace = workspaces.get(config.workspace)
        if workspace is None:
            workspace = WorkspaceId(uuid7(utc_now()))
            await writer.add_workspace(Workspace(workspace, config.workspace))
        vaults = {v.name: v.id for v in await writer.vaults() if v.workspace_id == workspace}
        accounts = {(a.vault_id, a.chain): a for a in await writer.accounts()}
        problems: list[str] = []
        for vault in config.vault:
            vault_id = vaults.get(vault.name)
            if vault_id is None:
                vault_id = VaultId(uuid7(utc_now()))
                await writer.add_vault(Vault(vault_id, workspace, vault.name))
            problems += await _settle_accounts(writer, signer, adapters, vault, vault_id, accounts)
        if problems:
            raise ConfigError(problems)
    return workspace


async def _settle_accounts(
    writer: Writer,
    signer: Signer,
    adapters: Mapping[str, Adapter],
    vault: VaultConfig,
    vault_id: VaultId,
    accounts: Mapping[tuple[VaultId, str], Account],
) -> Sequence[str]:
    problems = []
    for chain in vault.chains:
        adapter = adapters[chain]
        key = f"{vault.name}/{adapter.info.family}"
        public_key = await signer.public_key(key, adapter.info.algorithm)
        address = adapter.codec.address_of(public_key)
        known = accounts.get((vault_id, chain))
        if known is None:
            account = Account(AccountId(uuid7(utc_now())), vault_id, chain, address, key, public_key)
            await writer.add_account(account)
        elif known.address != address:
            problems.append(
                f"vault {vault.name}: its account on {chain} is {known.address}, but this key file controls {address}"
            )
    return problems


def _leaves(group: BaseExceptionGroup[ConfigError]) -> Sequence[ConfigError]:
    found: list[ConfigError] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
