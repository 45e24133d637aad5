"""A wrong configuration is refused before anything is opened, with every mistake in it, and no value shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli.desk import Desk

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]

LIST = ("tx", "list")
LANES = ("lane", "list")


def test_a_missing_file_is_named(desk: Desk, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    ran = desk.run(*LIST, "--config", str(missing), config=False)
    desk.check_refusal(ran, [f"{missing}: there is no such file"])


def test_a_folder_is_no_configuration(desk: Desk, tmp_path: Path) -> None:
    ran = desk.run(*LIST, "--config", str(tmp_path), config=False)
    desk.check_refusal(ran, ["cannot be read"])


def test_a_syntax_error_is_given_with_its_line(desk: Desk) -> None:
    desk.rewrite("[signer]", "[signer")
    desk.refused(*LIST, saying=["not valid TOML: Expected ']' at the end of a table declaration (at line"])


def test_text_that_is_not_utf_8_is_refused(desk: Desk) -> None:
    desk.config_file.write_bytes(b'workspace = "\xff"\n')
    desk.refused(*LIST, saying=["cannot be read"])


def test_an_empty_file_lacks_signer_chain_and_vault(desk: Desk) -> None:
    desk.config_file.write_text("")
    desk.refused(*LIST, saying=["signer: Field required", "chain: Field required", "vault: Field required"])


def test_every_mistake_is_reported_at_once(desk: Desk) -> None:
    desk.rewrite('workspace = "main"', 'workspace = "Main Office"\ncolour = "red"')
    desk.rewrite('password_file = "password"', "")
    desk.rewrite("lane_poll = 0.2", "lane_poll = -1")
    desk.setting("chain_id", '"one"', chain="evm")
    desk.rewrite("poll_interval = 0.05", "poll_interval = 0.05\nmax_tipp = 7")
    desk.setting("coin", '"peercoin"', chain="bitcoin")
    desk.rewrite('chains = ["evm", "bitcoin"]', 'chains = ["evm", "solana"]\n[[vault]]\nname = "hot-1"\nchains = []')
    ran = desk.refused(
        *LIST,
        saying=[
            "workspace: ",
            "colour: ",
            "timing.lane_poll: ",
            "vault.1.chains: ",
            "vault hot-1: the name is used 2 times",
            "vault hot-1: chain solana is not configured",
            "signer: exactly one of password_env and password_file",
            "chain evm: chain_id: ",
            "chain evm: max_tipp: ",
            "chain bitcoin: coin: ",
        ],
    )
    assert ran.out == ""


def test_an_unknown_family_is_refused(desk: Desk) -> None:
    desk.rewrite('family = "evm"', 'family = "cardano"')
    desk.refused(*LANES, saying=["chain evm: unknown family 'cardano'; there are: "])


def test_a_chain_without_a_family_is_refused(desk: Desk) -> None:
    desk.rewrite('family = "evm"\n', "")
    desk.refused(*LIST, saying=["chain.0.family: Field required"])


def test_a_name_belongs_to_one_chain(desk: Desk) -> None:
    desk.rewrite('name = "bitcoin"\nfamily', 'name = "evm"\nfamily')
    desk.refused(*LIST, saying=["chain evm: the name is used 2 times", "chain bitcoin is not configured"])


def test_an_unknown_setting_of_a_chain_is_refused(desk: Desk) -> None:
    desk.rewrite("poll_interval = 0.05", "poll_intervall = 0.05")
    desk.refused(*LANES, saying=["chain evm: poll_intervall: Extra inputs are not permitted"])


def test_an_asset_belongs_to_one_chain(desk: Desk) -> None:
    desk.rewrite("finality_depth = 6", 'finality_depth = 6\nasset = "ETH"')
    desk.refused(*LANES, saying=["chain bitcoin: asset ETH belongs to chain evm already"])


def test_an_address_that_is_none_is_refused_without_being_shown(desk: Desk) -> None:
    desk.setting("urls", '["ftp://operator:an-api-key-in-an-url@127.0.0.1"]', chain="evm")
    desk.refused(*LANES, saying=["chain evm: urls.0: "])


def test_a_database_of_an_unknown_kind_is_refused_without_its_password(desk: Desk) -> None:
    desk.setting("url", '"oracle://operator:an-api-key-in-an-url@127.0.0.1/gateway"')
    desk.refused(*LIST, saying=["database: 'oracle' is not one of"])


def test_a_database_server_that_is_down_is_reported_without_its_password(desk: Desk) -> None:
    desk.setting("url", '"postgresql://operator:an-api-key-in-an-url@127.0.0.1:1/gateway"')
    desk.refused(*LIST, saying=["database does not answer"])
    desk.refused(*LANES, saying=["store: the database does not answer"])


def test_chains_signer_and_store_report_together(desk: Desk) -> None:
    desk.rewrite('password_file = "password"', 'password_env = "NO_SUCH_PASSWORD"')
    desk.setting("url", '"sqlite:///nowhere.db"')
    desk.setting("chain_id", "0", chain="evm")
    desk.refused(
        *LANES,
        saying=[
            "chain evm: chain_id: ",
            "variable NO_SUCH_PASSWORD is empty or not set",
            "store: database: there is no",
        ],
    )
