"""Key file, journal and password: whatever is wrong with them, nothing is signed, stored or shown."""

from __future__ import annotations

import pytest

from tests.acceptance.cli.desk import Desk

pytestmark = [pytest.mark.devnet, pytest.mark.evm, pytest.mark.bitcoin]

SERVE = ("serve",)
ANOTHER = "another-long-password"


def test_a_missing_key_file_is_named(desk: Desk) -> None:
    (desk.folder / "keys.json").unlink()
    desk.refused(*SERVE, saying=["signer: key file"])


def test_a_missing_journal_is_named(desk: Desk) -> None:
    (desk.folder / "signer.journal").unlink()
    desk.refused(*SERVE, saying=["signer: journal"])


def test_a_wrong_password_opens_nothing(desk: Desk) -> None:
    (desk.folder / "password").write_text(ANOTHER)
    ran = desk.refused(*SERVE, saying=["does not open: the password is wrong or the file is damaged"])
    assert ANOTHER not in ran.err


@pytest.mark.parametrize("value", [None, ""])
def test_a_password_variable_that_is_not_set_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("GATEWAY_PASSWORD", raising=False)
    if value is not None:
        monkeypatch.setenv("GATEWAY_PASSWORD", value)
    desk.rewrite('password_file = "password"', 'password_env = "GATEWAY_PASSWORD"')
    desk.refused(*SERVE, saying=["environment variable GATEWAY_PASSWORD is empty or not set"])


def test_the_password_may_come_from_a_variable(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_PASSWORD", (desk.folder / "password").read_text())
    desk.rewrite('password_file = "password"', 'password_env = "GATEWAY_PASSWORD"')
    assert desk.run("lane", "list").code == 0


@pytest.mark.parametrize(("name", "what"), [("keys.json", "key file"), ("password", "password file")])
def test_a_file_that_others_can_read_is_refused(desk: Desk, name: str, what: str) -> None:
    path = desk.folder / name
    path.chmod(0o640)
    desk.refused(*SERVE, saying=[f"{what} {path} may be used by others than its owner (mode 0640); run: chmod 600"])


def test_a_damaged_key_file_is_refused(desk: Desk) -> None:
    path = desk.folder / "keys.json"
    path.write_text(path.read_text()[:-20])
    desk.refused(*SERVE, saying=["is not a key file, or it is damaged"])


def test_the_keys_of_another_gateway_are_refused(desk: Desk) -> None:
    for name in ("keys.json", "signer.journal", "signer.journal.head"):
        (desk.folder / name).unlink(missing_ok=True)
    assert desk.run("keys", "create").code == 0
    desk.refused(*SERVE, saying=["its account on evm is 0x", "its account on bitcoin is "])


def test_no_key_file_is_ever_overwritten(desk: Desk) -> None:
    before = (desk.folder / "keys.json").read_bytes()
    desk.refused("keys", "create", saying=["never overwritten"])
    assert (desk.folder / "keys.json").read_bytes() == before


def test_keys_are_made_only_where_both_files_can_be(desk: Desk) -> None:
    desk.rewrite('key_file = "keys.json"', 'key_file = "new.json"')
    desk.rewrite('journal = "signer.journal"', 'journal = "nowhere/signer.journal"')
    desk.refused("keys", "create", saying=["there is no folder"])
    assert not (desk.folder / "new.json").exists()
    desk.rewrite('journal = "nowhere/signer.journal"', 'journal = "new.journal"')
    assert desk.run("keys", "create").code == 0
    assert (desk.folder / "new.json").stat().st_mode & 0o777 == 0o600
