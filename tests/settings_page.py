"""The page of settings, made from the models that check them: `python -m tests.settings_page docs/configuration.md`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from adapters.bitcoin.params import Settings as Bitcoin
from adapters.evm.params import Settings as Evm
from gateway.config import ChainConfig, Config, SignerConfig, StoreConfig, Timing, VaultConfig

HEAD = """# Configuration

One TOML file, `gateway.toml` unless `--config` names another. All that is wrong with it is reported at once, and
nothing starts. Relative paths are relative to the file. This page is made from the models that check the settings; a
test fails when it is stale.

```toml
[signer]
key_file = "keys.json"
journal = "signer.journal"
password_file = "password"    # mode 0600

[[chain]]
name = "local"
family = "evm"
chain_id = 31337
urls = ["http://127.0.0.1:8545", "http://127.0.0.1:8546"]
ws_url = "ws://127.0.0.1:8545"

[[vault]]
name = "hot-1"
chains = ["local"]

[timing]
resend_after = 30
```

Writes go to every healthy endpoint of a chain, reads to one that is not behind. Two chains may not share a name, an
asset or a genesis block.
"""

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", Config),
    ("`[store]`", StoreConfig),
    ("`[signer]`", SignerConfig),
    ("`[[vault]]`", VaultConfig),
    ("`[timing]` (seconds)", Timing),
    ("`[[chain]]`, every family", ChainConfig),
    ('`[[chain]]`, `family = "evm"` (fees in wei)', Evm),
    ('`[[chain]]`, `family = "bitcoin"` (fees in base units, rates per virtual byte)', Bitcoin),
)


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    for title, model in SECTIONS:
        lines += [f"## {title}\n", "| setting | default | meaning |", "|---|---|---|"]
        lines += [f"| `{name}` | {_default(field)} | {_meaning(field)} |" for name, field in model.model_fields.items()]
        lines.append("")
    return "\n".join(lines)


def _meaning(field: Any) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or isinstance(value, BaseModel):
        return "see its section"
    if value is None:
        return "not set"
    if isinstance(value, dict):
        return "`" + ", ".join(f"{k} = {v}" for k, v in value.items()) + "`"
    return f"`{value}`" if value != "" else "empty"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
