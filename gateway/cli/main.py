"""`gateway`: the commands and their options; each is one call into a module that does the work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli import logs
from gateway.cli.run import run
from gateway.config import Config, load
from gateway.core.chain import FeeLevel
from gateway.core.errors import ConfigError
from gateway.core.lifecycle import Status

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
tx = typer.Typer(no_args_is_help=True, help="Withdrawals: create, list, show.")
db = typer.Typer(no_args_is_help=True, help="The database: upgrade, check, reconcile.")
keys = typer.Typer(no_args_is_help=True, help="The local signer's key file.")
devnet = typer.Typer(no_args_is_help=True, help="Local networks for development.")
lane = typer.Typer(no_args_is_help=True, help="Lanes: which are halted, and letting one go on.")
app.add_typer(lane, name="lane")
app.add_typer(tx, name="tx")
app.add_typer(db, name="db")
app.add_typer(keys, name="keys")
app.add_typer(devnet, name="devnet")

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The configuration file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
DEFAULT = Path("gateway.toml")


@app.callback()
def start() -> None:
    """Have every command log to standard error."""
    logs.set_up("warning")


@app.command()
def serve(config: ConfigOption = DEFAULT) -> None:
    """Run the gateway until Ctrl-C or TERM."""
    from gateway.cli.serve import serve as work

    run(work(load_or_exit(config)))


@app.command()
def demo(
    chains: Annotated[str, typer.Option(help="Which chains, separated by commas; all that can run here.")] = "",
    json: JsonOption = False,
    keep: Annotated[Path | None, typer.Option(help="Leave gateway.db and the configuration here.")] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Withdrawals per chain.")] = 3,
) -> None:
    """Start local networks and the gateway, pay withdrawals to COMPLETED, and check what the chains say."""
    from gateway.cli.demo import demo as work

    wanted = [c.strip() for c in chains.split(",") if c.strip()]
    if not run(work(wanted, as_json=json, keep=keep, count=count)):
        raise typer.Exit(1)


@app.command()
def audit(config: ConfigOption = DEFAULT, json: JsonOption = False) -> None:
    """Check the ledger against the statuses and the rows against the chains; exit 1 on any difference."""
    from gateway.cli.audit import audit as work

    if not run(work(load_or_exit(config), as_json=json)):
        raise typer.Exit(1)


@tx.command("create")
def tx_create(
    vault: Annotated[str, typer.Option(help="Name of the vault that pays.")],
    asset: Annotated[str, typer.Option(help="Asset, e.g. ETH.")],
    to: Annotated[str, typer.Option(help="Destination address.")],
    amount: Annotated[str, typer.Option(help="Amount in coins, e.g. 0.5.")],
    config: ConfigOption = DEFAULT,
    external_id: Annotated[str | None, typer.Option(help="Your id: the same id is never paid twice.")] = None,
    fee_level: Annotated[FeeLevel, typer.Option(help="LOW, MEDIUM or HIGH.")] = FeeLevel.MEDIUM,
    max_fee: Annotated[str | None, typer.Option(help="The most it may cost, in coins.")] = None,
    memo: Annotated[str | None, typer.Option(help="Memo or tag, where the chain has one.")] = None,
    json: JsonOption = False,
) -> None:
    """Accept one withdrawal; a running gateway takes it from there."""
    from gateway.cli.tx import Wanted, create

    wanted = Wanted(vault, asset, amount, to, memo, external_id, fee_level, max_fee)
    run(create(load_or_exit(config), wanted, as_json=json))


@tx.command("list")
def tx_list(
    config: ConfigOption = DEFAULT,
    status: Annotated[Status | None, typer.Option(help="Only this status.")] = None,
    chain: Annotated[str | None, typer.Option(help="Only this chain.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 50,
    json: JsonOption = False,
) -> None:
    """List withdrawals, newest first."""
    from gateway.cli.tx import show_list

    run(show_list(load_or_exit(config), status=status, chain=chain, limit=limit, as_json=json))


@tx.command("show")
def tx_show(
    withdrawal: Annotated[str, typer.Argument(help="Withdrawal or transaction id, your external id, or a hash.")],
    config: ConfigOption = DEFAULT,
    json: JsonOption = False,
) -> None:
    """Draw the time line of one withdrawal: statuses, attempts, confirmations, reorgs."""
    from gateway.cli.tx import show_one

    run(show_one(load_or_exit(config), withdrawal, as_json=json))


@db.command("upgrade")
def db_upgrade(config: ConfigOption = DEFAULT) -> None:
    """Create the schema, or bring it up to date."""
    from gateway.cli.database import upgrade

    run(upgrade(load_or_exit(config)))


@db.command("check")
def db_check(config: ConfigOption = DEFAULT) -> None:
    """Say whether the gateway would accept this database; exit 1 if not."""
    from gateway.cli.database import check

    if not run(check(load_or_exit(config))):
        raise typer.Exit(1)


@db.command("reconcile")
def db_reconcile(config: ConfigOption = DEFAULT, json: JsonOption = False) -> None:
    """Put back what the signer's journal knows and the store does not (after an older copy was restored)."""
    from gateway.cli.database import reconcile

    run(reconcile(load_or_exit(config), as_json=json))


@lane.command("list")
def lane_list(config: ConfigOption = DEFAULT, json: JsonOption = False) -> None:
    """List the accounts, and why signing is refused for one."""
    from gateway.cli.lane import show

    run(show(load_or_exit(config), as_json=json))


@lane.command("resume")
def lane_resume(
    chain: Annotated[str, typer.Option(help="The chain.")],
    address: Annotated[str, typer.Option(help="The account's address.")],
    because: Annotated[str, typer.Option(help="On what grounds; kept for ever.")],
    config: ConfigOption = DEFAULT,
) -> None:
    """Allow signing for a halted account again, when a person has explained what happened."""
    from gateway.cli.lane import resume

    run(resume(load_or_exit(config), chain=chain, address=address, because=because))


@keys.command("create")
def keys_create(config: ConfigOption = DEFAULT) -> None:
    """Make the key file and the journal that the configuration names; nothing is ever overwritten."""
    from gateway.cli.key_file import create

    run(create(load_or_exit(config)))


@devnet.command("up")
def devnet_up(
    chains: Annotated[list[str] | None, typer.Argument(help="Which chains; all that can run here.")] = None,
    json: JsonOption = False,
    folder: Annotated[Path | None, typer.Option(help="Data and logs; a temporary folder if not given.")] = None,
    block_time: Annotated[float, typer.Option(help="Seconds between blocks; 0: only on demand.")] = 1.0,
) -> None:
    """Start local networks and keep them until Ctrl-C."""
    from gateway.cli.networks import up

    run(up(chains or [], as_json=json, folder=folder, block_time=block_time))


def load_or_exit(path: Path) -> Config:
    """Load the configuration, or print every problem in it and exit 1."""
    try:
        return load(path, examine=_chain_problems)
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        raise typer.Exit(1) from None


def _chain_problems(family: str, name: str, settings: Mapping[str, Any]) -> Sequence[str]:
    from gateway.app import chain_problems

    return chain_problems(family, name, settings)


def main() -> None:
    """Run the command line."""
    app()
