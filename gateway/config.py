"""The configuration: one TOML file, checked completely before anything is opened.

Every problem is reported at once, with the name of the setting. What belongs to a chain alone its adapter checks.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.core.errors import ConfigError

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class StoreConfig(_Section):
    """Where the store is: `sqlite:///gateway.db`, `postgresql://…` or `mysql://…`."""

    url: str = "sqlite:///gateway.db"
    """`sqlite:///path`, `postgresql://user:password@host/name` or `mysql://…`; its commits must be durable."""


class SignerConfig(_Section):
    """The local signer: its key file, its journal (on another disk, best), and where its password is."""

    kind: Literal["local"] = "local"
    """Keys in a file on this machine; the only kind so far."""
    key_file: Path
    """The encrypted keys; made by `gateway keys create`."""
    journal: Path
    """Everything that was ever signed; best on another disk than the store. One process at a time opens it."""
    password_env: str | None = None
    """Name of the environment variable that holds the key file's password; this or `password_file`."""
    password_file: Path | None = None
    """File that holds the password; only its owner may read it."""


class ChainConfig(BaseModel):
    """One chain: its name, its family, and whatever the family's adapter wants."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)

    name: Name
    """What the gateway calls the chain, in rows and logs; never change it for a chain that was used."""
    family: str
    """Which adapter speaks to it; the family's own settings are below."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the adapter is given."""
        return self.model_extra or {}


class VaultConfig(_Section):
    """One vault and the chains on which it has an account."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    """What requests call the vault. The name is part of its keys: renamed, it is another vault, and empty."""
    chains: Annotated[list[Name], Field(min_length=1)]
    """The chains on which it has an account."""


class Timing(_Section):
    """How the gateway spends its time; seconds."""

    poll: Seconds = 5.0
    """The longest that a tracker waits for a new head before it looks after what is to be sent again."""
    lane_poll: Seconds = 1.0
    """How often lanes look for withdrawals that another process accepted."""
    resend_after: Seconds = 30.0
    """After how long in no block the same bytes are offered to the nodes again."""
    lease: Annotated[float, Field(ge=1, le=600)] = 4.0
    """How long a lane or a tracker stays its owner's after the owner fell silent."""
    retry_pause: Seconds = 1.0
    """The pause after a node or the database could not be reached."""


class Config(_Section):
    """The whole configuration. Relative paths are relative to the file."""

    workspace: Name = "main"
    """The tenant that the vaults belong to."""
    store: StoreConfig = StoreConfig()
    """The database."""
    signer: SignerConfig
    """The keys."""
    chain: Annotated[list[ChainConfig], Field(min_length=1)]
    """One table per chain."""
    vault: Annotated[list[VaultConfig], Field(min_length=1)]
    """One table per vault."""
    timing: Timing = Timing()
    """The pace."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""


Examine = Callable[[str, str, Mapping[str, Any]], Sequence[str]]
"""Says what is wrong with a chain's own settings, given its family, name and settings."""


def load(path: Path, *, examine: Examine | None = None) -> Config:
    """Read and check a configuration file. ConfigError: every problem in it.

    `examine` is asked about the chains' own settings when something else is wrong already; else whoever opens the
    configuration learns of them.
    """
    try:
        with path.open("rb") as file:
            raw = tomllib.load(file)
    except FileNotFoundError:
        raise ConfigError([f"{path}: there is no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{path}: not valid TOML: {error}"]) from error
    return parse(raw, base=path.parent, examine=examine)


def parse(raw: Mapping[str, Any], *, base: Path, examine: Examine | None = None) -> Config:
    """Check a configuration given as a mapping. ConfigError: every problem in it."""
    config: Config | None = None
    problems: list[str] = []
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        problems += [
            f"{'.'.join(map(str, e['loc'])) or 'configuration'}: {e['msg']}" for e in error.errors(include_input=False)
        ]
    problems += _contradictions(raw)
    if config is None or problems:
        if examine is not None:
            problems += _examined(raw, examine)
        raise ConfigError(problems)
    return _absolute(config, base.resolve())


def _contradictions(raw: Mapping[str, Any]) -> list[str]:
    """Compare the parts with each other, as far as they can be read: other mistakes must not hide these."""
    names = {
        what: [n for t in _tables(raw, what) if isinstance(n := t.get("name"), str)] for what in ("chain", "vault")
    }
    problems = [
        f"{what} {name}: the name is used {count} times"
        for what, found in names.items()
        for name, count in Counter(found).items()
        if count > 1
    ]
    problems += [
        f"vault {vault.get('name')}: chain {name} is not configured"
        for vault in _tables(raw, "vault")
        for name in _texts(vault.get("chains"))
        if name not in names["chain"]
    ]
    signer = raw.get("signer")
    if isinstance(signer, Mapping) and ("password_env" in signer) == ("password_file" in signer):
        problems.append("signer: exactly one of password_env and password_file is needed")
    return problems


def _examined(raw: Mapping[str, Any], examine: Examine) -> list[str]:
    problems: list[str] = []
    for chain in _tables(raw, "chain"):
        name, family = chain.get("name"), chain.get("family")
        if isinstance(name, str) and isinstance(family, str):
            settings = {key: value for key, value in chain.items() if key not in ("name", "family")}
            problems += examine(family, name, settings)
    return problems


def _tables(raw: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = raw.get(name)
    return [t for t in found if isinstance(t, Mapping)] if isinstance(found, list) else []


def _texts(found: object) -> list[str]:
    return [t for t in found if isinstance(t, str)] if isinstance(found, list) else []


def _absolute(config: Config, base: Path) -> Config:
    signer = config.signer
    password_file = signer.password_file
    url = config.store.url
    prefix = "sqlite:///"
    if url.startswith(prefix) and not url.startswith(prefix + "/"):
        url = f"{prefix}{base / url.removeprefix(prefix)}"
    return config.model_copy(
        update={
            "store": StoreConfig(url=url),
            "signer": signer.model_copy(
                update={
                    "key_file": base / signer.key_file,
                    "journal": base / signer.journal,
                    "password_file": None if password_file is None else base / password_file,
                }
            ),
        }
    )
