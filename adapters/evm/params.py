"""What an operator may set for one EVM chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from adapters.transport.jsonrpc import MAX_BYTES, endpoint_name
from gateway.core.chain import FeeLevel
from gateway.core.errors import ConfigError

DECIMALS = 18
GWEI = 10**9
TRANSFER_GAS = 21_000
"""What a transfer to an address without code costs, exactly."""
MAX_GAS = 1 << 24
"""No transaction may ask for more (EIP-7825)."""
FALLBACK_DEPTH = 64
"""Two epochs: how deep a block must be where the nodes know no `finalized` tag."""

Wei = Annotated[int, Field(ge=0, lt=2**128)]
Percentile = Annotated[int, Field(ge=0, le=100)]


def _percentiles() -> dict[FeeLevel, Percentile]:
    return {FeeLevel.LOW: 10, FeeLevel.MEDIUM: 50, FeeLevel.HIGH: 90}


class Settings(BaseModel):
    """One configured chain. Fees and prices in wei."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    chain_id: Annotated[int, Field(ge=1, lt=2**63)]
    """Every node must answer for it."""
    urls: Annotated[list[str], Field(min_length=1)]
    """The nodes: http or https, credentials included where they want some."""
    genesis: Annotated[str, Field(pattern="^0x[0-9a-f]{64}$")] | None = None
    """Hash of block 0; checked when given. Two chains may share a chain id by mistake, but not this."""
    asset: Annotated[str, Field(min_length=1)] = "ETH"
    """The id of the native coin in requests."""
    threshold: Annotated[int, Field(ge=1)] = 1
    """Confirmations to COMPLETED."""
    finality: Literal["tag"] | Annotated[int, Field(ge=1, le=1_000_000)] = "tag"
    """The nodes' `finalized` tag, or how many blocks must lie on top of a block that cannot leave any more."""
    fees: Literal["auto", "legacy"] = "auto"
    """"auto": base fee and tip where the chain has a base fee; "legacy": always one gas price."""
    min_tip: Wei = GWEI // 1000
    """The least tip per gas that is offered."""
    max_tip: Wei = 100 * GWEI
    """The most tip per gas that is offered."""
    max_fee_per_gas: Wei = 1_000 * GWEI
    """The most that a unit of gas may cost, base fee and tip."""
    max_fee: Wei = 10**17
    """The most that one withdrawal may cost, whatever its order allows; nodes refuse above 10**18 by default."""
    percentiles: dict[FeeLevel, Percentile] = Field(default_factory=_percentiles)
    """Which of the tips paid in the last blocks each fee level follows."""
    fee_blocks: Annotated[int, Field(ge=1, le=100)] = 20
    """How many of the last blocks that is."""
    bump_percent: Annotated[int, Field(ge=10, le=100)] = 15
    """How much a replacement adds to both fees; nodes want 10, rounded differently by each."""
    gas_margin: Annotated[int, Field(ge=0, le=400)] = 25
    """Percent on top of an estimate for a destination with code; without code the gas is exact."""
    replacement: bool = True
    """False where a sequencer takes the first that it sees and keeps no pool."""
    lane_depth: Annotated[int, Field(ge=1, le=1_000)] = 16
    """How many may wait at once; nodes keep 16 of one account for certain."""
    ws_url: Annotated[str, Field(pattern=r"^wss?://")] | None = None
    """A node's WebSocket for news of heads; without it, and whenever it is silent, `poll_interval` finds them."""
    poll_interval: Annotated[float, Field(gt=0, le=600)] = 1.0
    """Seconds between two looks for a new head."""
    timeout: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds that one call may take."""
    max_bytes: Annotated[int, Field(ge=1_000_000)] = MAX_BYTES
    """The longest answer that is read."""
    explorer: str = ""
    """Where people look a hash up; kept for the API."""

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        problems = []
        if self.min_tip > self.max_tip:
            problems.append("min_tip is above max_tip")
        if self.max_tip > self.max_fee_per_gas:
            problems.append("max_tip is above max_fee_per_gas")
        marks = [self.percentiles.get(level) for level in FeeLevel]
        if any(mark is None for mark in marks) or marks != sorted(m for m in marks if m is not None):
            problems.append("percentiles must name LOW, MEDIUM and HIGH, in rising order")
        if problems:
            raise ValueError("; ".join(problems))
        return self


def read_settings(name: str, raw: Mapping[str, object]) -> Settings:
    """Check one chain's configuration. Raises ConfigError with every problem; shows no value, for URLs hold keys."""
    problems: list[str] = []
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(dict(raw))
    except ValidationError as error:
        problems += [
            f"chain {name}: {'.'.join(map(str, problem['loc'])) or 'settings'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        ]
    urls = raw.get("urls")
    for at, url in enumerate(urls if isinstance(urls, list) else []):
        try:
            endpoint_name(str(url))
            if not str(url).startswith(("http://", "https://")):
                raise ConfigError(["only http and https carry JSON-RPC calls"])
        except ConfigError as error:
            problems += [f"chain {name}: urls.{at}: {problem}" for problem in error.problems]
    if settings is None or problems:
        raise ConfigError(problems)
    return settings
