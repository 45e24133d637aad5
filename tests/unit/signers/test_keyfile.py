"""The key file: what opens it, what does not, and what it never tells."""

import hashlib
import hmac
import json
import os
import pickle
import stat
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import ConfigError, SignerRefused, SignerUnavailable
from gateway.signers import keyfile
from gateway.signers.algorithms import ED25519, SECP256K1_DIGEST, SECP256K1_ORDER
from gateway.signers.keyfile import CHEAP, STRONG, Keys, Password, read_password

PASSWORD = "correct horse battery staple"
SEED = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys.json"
    keyfile.create(made, Password(PASSWORD), work=CHEAP)
    return made


def change(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text())
    for name, value in changes.items():
        part = content
        *parents, last = name.split("__")
        for parent in parents:
            part = part[parent]
        part[last] = value
    path.write_text(json.dumps(content))


def test_a_file_opens_with_its_password_and_derives_the_same_keys(tmp_path: Path) -> None:
    made = keyfile.create(tmp_path / "keys", Password(PASSWORD), work=CHEAP)
    opened = keyfile.open(tmp_path / "keys", Password(PASSWORD))
    assert opened.fingerprint == made.fingerprint
    for algorithm in (SECP256K1_DIGEST, ED25519):
        assert opened.derive("vault/1", algorithm) == made.derive("vault/1", algorithm)


def test_two_files_hold_two_seeds(tmp_path: Path) -> None:
    one, other = (keyfile.create(tmp_path / n, Password(PASSWORD), work=CHEAP) for n in "ab")
    assert one.fingerprint != other.fingerprint
    assert one.derive("k", ED25519) != other.derive("k", ED25519)


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    for mask in (0o000, 0o077, 0o777):
        before = os.umask(mask)
        try:
            keyfile.create(tmp_path / f"keys{mask}", Password(PASSWORD), work=CHEAP)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / f"keys{mask}").stat().st_mode) == 0o600


def test_a_key_file_is_never_overwritten_and_leaves_nothing_half_done(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(SignerUnavailable, match=r"keys\.json exists already"):
        keyfile.create(path, Password(PASSWORD), work=CHEAP)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_failure_before_the_name_exists_leaves_no_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SignerUnavailable, match="cannot be written: No space left"):
        keyfile.create(tmp_path / "keys", Password(PASSWORD), work=CHEAP)
    assert os.listdir(tmp_path) == []


def test_content_then_name_are_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, bool]] = []
    real = os.fsync

    def note(handle: int) -> None:
        real(handle)
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "keys").exists()))

    monkeypatch.setattr(os, "fsync", note)
    keyfile.create(tmp_path / "keys", Password(PASSWORD), work=CHEAP)
    assert synced == [(False, False), (True, True)]


def test_real_files_take_real_work(tmp_path: Path) -> None:
    assert STRONG >= 2**15
    keyfile.create(tmp_path / "keys", Password(PASSWORD))
    assert json.loads((tmp_path / "keys").read_text())["kdf"]["n"] == STRONG


def test_the_wrong_password_is_told_as_what_is_known(path: Path) -> None:
    with pytest.raises(SignerUnavailable) as caught:
        keyfile.open(path, Password("wrong"))
    assert str(path) in str(caught.value)
    assert "the password is wrong or the file is damaged (the two cannot be told apart)" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sealed": "00" * 48}, "cannot be told apart"),
        ({"kdf__salt": "00" * 16}, "cannot be told apart"),
        ({"cipher__nonce": "00" * 12}, "cannot be told apart"),
        ({"kdf__n": 2}, "cannot be told apart"),
        ({"extra": "added"}, "cannot be told apart"),
        ({"sealed": "no hex"}, "is damaged"),
        ({"kdf": None}, "is damaged"),
        ({"kdf__n": 2**40}, "is damaged"),
        ({"kdf__n": 100}, "is damaged"),
        ({"kdf__n": "many"}, "is damaged"),
        ({"kdf__name": "argon2id"}, "is damaged"),
        ({"version": 2}, "has version 2; this program reads version 1"),
        ({"format": "other"}, "is not a key file, or it is damaged"),
    ],
)
def test_a_changed_file_does_not_open(path: Path, changes: dict[str, object], text: str) -> None:
    change(path, **changes)
    with pytest.raises(SignerUnavailable, match=text.replace("(", r"\(")) as caught:
        keyfile.open(path, Password(PASSWORD))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"3", b"\xff\xfe", b"{" * 100, b"x" * 100_000])
def test_another_file_does_not_open(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(SignerUnavailable, match=r"keys\.json"):
        keyfile.open(path, Password(PASSWORD))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SignerUnavailable, match="nowhere does not exist"):
        keyfile.open(tmp_path / "nowhere", Password(PASSWORD))


def test_a_folder_is_no_key_file(tmp_path: Path) -> None:
    with pytest.raises(SignerUnavailable, match="is not a file"):
        keyfile.open(tmp_path, Password(PASSWORD))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_a_file_that_others_may_use_is_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(SignerUnavailable, match=f"mode {mode:04o}.*chmod 600"):
        keyfile.open(path, Password(PASSWORD))
    path.chmod(0o400)
    keyfile.open(path, Password(PASSWORD))


def test_an_empty_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SignerUnavailable, match="empty password"):
        keyfile.create(tmp_path / "keys", Password(""), work=CHEAP)


def test_a_password_is_the_same_however_it_was_composed(tmp_path: Path) -> None:
    keyfile.create(tmp_path / "keys", Password("caf\u00e9"), work=CHEAP)
    keyfile.open(tmp_path / "keys", Password("cafe\u0301"))


# Addresses that hold money hang on these: if this test fails, restore the derivation, not the test.
def test_the_derivation_never_changes() -> None:
    keys = Keys(SEED)
    assert keys.derive("vault/1", ED25519).hex() == ED25519_PINNED
    assert keys.derive("vault/1", SECP256K1_DIGEST).hex() == SECP256K1_PINNED


@given(st.binary(min_size=32, max_size=32), st.text(min_size=1, max_size=40))
def test_keys_are_hkdf_of_the_seed(seed: bytes, name: str) -> None:
    keys = Keys(seed)
    info = b"withdrawal-gateway/key/v1\0%b\0" + name.encode()
    assert keys.derive(name, ED25519) == hkdf(seed, info.replace(b"%b", b"ed25519", 1), 32)
    wide = int.from_bytes(hkdf(seed, info.replace(b"%b", b"secp256k1-digest", 1), 48), "big")
    scalar = int.from_bytes(keys.derive(name, SECP256K1_DIGEST), "big")
    assert scalar == wide % (SECP256K1_ORDER - 1) + 1
    assert 1 <= scalar < SECP256K1_ORDER


def test_the_edges_of_the_range_are_reached_and_not_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    for wide, scalar in [
        (0, 1),
        (SECP256K1_ORDER - 2, SECP256K1_ORDER - 1),
        (SECP256K1_ORDER - 1, 1),
        (2**384 - 1, (2**384 - 1) % (SECP256K1_ORDER - 1) + 1),
    ]:
        monkeypatch.setattr(Keys, "_stretch", lambda *_, wide=wide: wide.to_bytes(48, "big"))
        assert int.from_bytes(Keys(SEED).derive("k", SECP256K1_DIGEST), "big") == scalar


def test_each_name_and_each_algorithm_has_its_own_key() -> None:
    keys = Keys(SEED)
    made = [keys.derive(n, a) for n in ("a", "b", "a\0b", "ab") for a in (SECP256K1_DIGEST, ED25519)]
    assert len(set(made)) == len(made)


def test_a_nameless_key_or_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(SignerRefused, match="name"):
        Keys(SEED).derive("", ED25519)
    with pytest.raises(SignerRefused, match="'rsa'"):
        Keys(SEED).derive("k", "rsa")


def test_secrets_are_not_shown_and_not_pickled() -> None:
    for secret, hidden in ((Keys(SEED), SEED.hex()), (Password(PASSWORD), PASSWORD)):
        for text in (repr(secret), str(secret), f"{secret}", f"{[secret]}"):
            assert hidden not in text
        with pytest.raises(TypeError):
            pickle.dumps(secret)
    assert repr(SEED) not in repr(Keys(SEED))


def test_the_file_holds_neither_seed_nor_password(tmp_path: Path) -> None:
    keys = keyfile.create(tmp_path / "keys", Password(PASSWORD), work=CHEAP)
    content = (tmp_path / "keys").read_text()
    assert keys._seed.hex() not in content
    assert PASSWORD not in content


def test_no_exception_shows_the_password_or_the_seed(path: Path) -> None:
    seed = keyfile.open(path, Password(PASSWORD))._seed
    for changes in ({"sealed": "00" * 48}, {"version": 9}, {"kdf": None}):
        change(path, **changes)
        with pytest.raises(SignerUnavailable) as caught:
            keyfile.open(path, Password(PASSWORD))
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        text = "".join(shown.format())
        assert "keyfile" in text
        assert PASSWORD not in text.replace(f"PASSWORD = {PASSWORD!r}", "")
        assert seed.hex() not in text
        assert repr(seed) not in text.replace(f"seed = {seed!r}", ""), "only this test's own variable"


def test_a_password_comes_from_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    for content, password in [("p w\n", "p w"), ("p w\r\n", "p w"), ("p w", "p w"), ("p\n\n", "p\n")]:
        file.write_text(content, newline="")
        file.chmod(0o600)
        assert read_password(file=file).encode() == password.encode()
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"password file .*chmod 600"):
        read_password(file=file)


def test_a_password_comes_from_the_environment() -> None:
    assert read_password(variable="PW", environ={"PW": "secret"}).encode() == b"secret"


def test_a_password_that_is_missing_is_a_problem_of_the_configuration(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    empty.chmod(0o600)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    binary.chmod(0o600)
    with pytest.raises(ConfigError, match="PW is empty or not set"):
        read_password(variable="PW", environ={})
    with pytest.raises(ConfigError, match="does not exist"):
        read_password(file=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is empty"):
        read_password(file=empty)
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_password(file=binary)
    with pytest.raises(ConfigError, match="either a file or"):
        read_password()
    with pytest.raises(ConfigError, match="either a file or"):
        read_password(file=empty, variable="PW")


def hkdf(seed: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 with SHA-256 and no salt, written anew."""
    key = hmac.digest(bytes(32), seed, hashlib.sha256)
    made = block = b""
    counter = 1
    while len(made) < length:
        block = hmac.digest(key, block + info + bytes([counter]), hashlib.sha256)
        made += block
        counter += 1
    return made[:length]


ED25519_PINNED = "1761b0d195f76a6768a1f5b547cca2e63b9e396e0173d3141744828455f2bb1b"
SECP256K1_PINNED = "d63de9c212edf0b741660979cddccfd7bc42e21ddcc3dec666a0c306eecc7b3d"
