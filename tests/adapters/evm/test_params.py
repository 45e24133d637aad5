"""Settings: every problem is told at once, and no value is shown."""

from __future__ import annotations

import pytest

from adapters.evm import make
from gateway.core.errors import ConfigError
from tests.adapters.evm.vault import settings


def problems(**more: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        make("eth", {"chain_id": 1, "urls": ["http://127.0.0.1:1"], **more})
    assert all(problem.startswith("chain eth: ") for problem in caught.value.problems)
    return caught.value.problems


def test_all_problems_are_told_at_once_without_any_secret() -> None:
    found = problems(
        chain_id=0, urls=["http://user:s3cret@", "ws://h/s3cret"], lane_depth=0, surprise="s3cret", genesis="0xs3cret"
    )
    text = "; ".join(found)
    for part in ("chain_id", "urls.0", "urls.1", "lane_depth", "surprise", "genesis"):
        assert part in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"min_tip": 5, "max_tip": 4}, "min_tip is above max_tip"),
        ({"max_tip": 5, "min_tip": 1, "max_fee_per_gas": 4}, "max_tip is above max_fee_per_gas"),
        ({"percentiles": {"LOW": 50, "MEDIUM": 10, "HIGH": 90}}, "rising order"),
        ({"percentiles": {"LOW": 50}}, "rising order"),
        ({"finality": "soon"}, "finality"),
        ({"finality": 0}, "finality"),
        ({"bump_percent": 9}, "bump_percent"),
        ({"urls": []}, "urls"),
        ({"fees": "free"}, "fees"),
    ],
)
def test_a_wrong_setting_is_told(more: dict[str, object], text: str) -> None:
    assert text in "; ".join(problems(**more))


def test_the_defaults_are_those_that_are_documented() -> None:
    made = settings()
    assert (made.asset, made.threshold, made.finality, made.lane_depth) == ("ETH", 1, "tag", 16)
    assert (made.bump_percent, made.replacement, made.fees) == (15, True, "auto")


def test_a_depth_may_stand_for_the_tag() -> None:
    assert settings(finality=12).finality == 12
