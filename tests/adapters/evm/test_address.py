"""Addresses: the checksum of EIP-55, what may not be paid, and claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.evm.address import canonical, claim, destination, nonce_in, of_public_key
from gateway.core.errors import BadRequest
from tests.adapters.evm.vault import Key

EIP_55 = [
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
]


@pytest.mark.parametrize("text", EIP_55)
def test_the_examples_of_eip_55_are_canonical(text: str) -> None:
    assert canonical(text) == text
    assert canonical(text.lower()) == text
    assert canonical("0x" + text[2:].upper()) == text


@pytest.mark.parametrize("text", EIP_55[4:])
def test_mixed_case_with_one_letter_wrong_is_refused(text: str) -> None:
    for at, letter in enumerate(text[2:], 2):
        if letter.isalpha():
            wrong = text[:at] + letter.swapcase() + text[at + 1 :]
            with pytest.raises(BadRequest, match="checksum") as caught:
                canonical(wrong)
            assert caught.value.field == "destination"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAe",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAedd",
        "5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        " 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\n",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeg",
        "0x" + "\u0661" * 40,
        "vitalik.eth",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        canonical(text)
    assert caught.value.field == "destination"


@pytest.mark.parametrize("number", [0, 1, 9, 0x11, 0x100])
def test_what_nobody_can_spend_is_refused(number: int) -> None:
    with pytest.raises(BadRequest, match="lost"):
        destination(f"0x{number:040x}", None)


@pytest.mark.parametrize("number", [0x12, 0xFF, 0x101, 2**160 - 1])
def test_what_is_near_those_is_taken(number: int) -> None:
    assert int(destination(f"0x{number:040x}", None), 16) == number


@pytest.mark.parametrize("memo", ["", "7", "hello"])
def test_a_memo_is_refused_and_not_lost(memo: str) -> None:
    with pytest.raises(BadRequest) as caught:
        destination(EIP_55[4], memo)
    assert caught.value.field == "memo"


@pytest.mark.parametrize(
    ("secret", "address"),
    [
        # The first accounts of the words "test test … junk", known from every development node.
        (
            "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
            "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
        ),
        (
            "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
            "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        ),
    ],
)
def test_a_key_has_the_address_that_is_known_for_it(secret: str, address: str) -> None:
    assert of_public_key(Key(bytes.fromhex(secret)).public) == address


@given(st.integers(0, 2**64 - 1))
def test_a_claim_is_read_back_for_its_own_address_only(nonce: int) -> None:
    text = claim(EIP_55[4], nonce)
    assert text == f"{EIP_55[4].lower()}:{nonce}"
    assert nonce_in(text, EIP_55[4]) == nonce
    assert nonce_in(text, EIP_55[5]) is None
