from __future__ import annotations

import pytest

from sonde.embedding.base import PROVIDERS, load_provider
from sonde.errors import InvalidRequest


@pytest.mark.parametrize("name", ["static", "deep"])
def test_every_bundled_provider_loads_and_embeds(name: str) -> None:
    provider = load_provider(name)
    vectors = provider.embed(["open the file", ""], "query")
    assert vectors.shape == (2, provider.dimensions)
    assert vectors[0].any()
    assert not vectors[1].any()
    provider.close()


def test_vectors_of_different_providers_have_different_names() -> None:
    assert load_provider("static").name != load_provider("deep").name


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_provider("statc")
    assert "static" in caught.value.next_action
    assert "deep" not in caught.value.next_action


def test_a_name_like_nothing_is_refused_with_all() -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_provider("zzzzzz")
    assert all(name in caught.value.next_action for name in PROVIDERS)
