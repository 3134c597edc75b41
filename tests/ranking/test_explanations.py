import re

from sonde.ranking.features import FEATURES
from sonde.ranking.passages import PASSAGE_FEATURES
from sonde.ranking.weights import explain_score


def test_reasons_that_say_the_same_are_added_up_strongest_first() -> None:
    why = {"lexical_top": -0.5, "dense_rel": 1.0, "deep_rel": 1.5, "is_test": -2.0}
    assert explain_score(why) == [
        ("is close in meaning", 2.5),
        ("is a test", -2.0),
        ("has few words of the question", -0.5),
    ]


def test_no_feature_is_shown_by_its_own_name() -> None:
    for name in (*FEATURES, *PASSAGE_FEATURES, "something_new"):
        for part in (1.0, -1.0):
            ((reason, _),) = explain_score({name: part})
            assert not re.search(r"_|\bf1\b|\brel\b", reason), (name, reason)
