"""Models of the user's: folders by path."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.embedding.model_folders import WORDS, write_model

from sonde.embedding.model import ModelEmbedder
from sonde.errors import EmbeddingFailed, MissingExtra


def open_model(folder: Path) -> ModelEmbedder:
    return ModelEmbedder(folder.name, folder.parent, path=folder, threads=1)


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.linalg.norm(vector)


def rows(table: NDArray[np.float32], *words: str) -> NDArray[np.float32]:
    return table[[WORDS.index(word) for word in ("[CLS]", *words, "[SEP]")]]


def test_the_mean_of_all_tokens_or_the_first_as_the_folder_says(tmp_path: Path) -> None:
    texts = ["walrus", "Otter sea fish", ""]
    for cls in (False, True):
        table = write_model(tmp_path / f"{cls}", cls=cls)
        model = open_model(tmp_path / f"{cls}")
        got = model.embed(texts, "passage")
        assert model.dimensions == got.shape[1] == 8
        for at, words in enumerate((["walrus"], ["otter", "sea", "fish"])):
            states = rows(table, *words)
            wanted = states[0] if cls else states.mean(0)
            np.testing.assert_allclose(got[at], unit(wanted), atol=1e-5)
        assert not got[2].any()


def test_prompts_and_length_are_those_of_the_folder(tmp_path: Path) -> None:
    table = write_model(
        tmp_path / "m",
        config_sentence_transformers={"prompts": {"query": "query: "}},
        sentence_bert_config={"max_seq_length": 5},
    )
    model = open_model(tmp_path / "m")
    (query,) = model.embed(["walrus"], "query")
    np.testing.assert_allclose(query, unit(rows(table, "query", ":", "walrus").mean(0)), atol=1e-5)
    one, other = model.embed(["sea sea sea walrus", "sea sea sea otter"], "passage")
    np.testing.assert_array_equal(one, other)


def test_a_vocabulary_alone_is_enough(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    before = open_model(tmp_path / "m").embed(["Walrus sea"], "query")
    (tmp_path / "m" / "tokenizer.json").unlink()
    (tmp_path / "m" / "vocab.txt").write_text("\n".join([*WORDS, "[MASK]"]))
    np.testing.assert_allclose(open_model(tmp_path / "m").embed(["Walrus sea"], "query"), before)


def test_the_name_changes_with_the_files_and_not_with_the_place(tmp_path: Path) -> None:
    write_model(tmp_path / "m")
    name = open_model(tmp_path / "m").name
    shutil.copytree(tmp_path / "m", tmp_path / "elsewhere" / "m")
    assert open_model(tmp_path / "elsewhere" / "m").name == name
    write_model(tmp_path / "m", cls=True)
    assert open_model(tmp_path / "m").name != name


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"modules": [{"type": "sentence_transformers.models.Dense"}]}, "Dense"),
        ({"1_Pooling/config": {"pooling_mode_max_tokens": True}}, "max_tokens"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, broken: dict[str, object], why: str) -> None:
    write_model(tmp_path / "m", **broken)
    with pytest.raises(EmbeddingFailed, match=why):
        open_model(tmp_path / "m").embed(["walrus"], "query")


@pytest.mark.parametrize("lacking", ["onnx/model.onnx", "tokenizer.json", "."])
def test_what_is_lacking_is_named(tmp_path: Path, lacking: str) -> None:
    write_model(tmp_path / "m")
    place = tmp_path / "m" / lacking
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    with pytest.raises(EmbeddingFailed):
        open_model(tmp_path / "m").embed(["walrus"], "query")


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", "config.json"])
def test_garbage_is_an_error_not_a_crash(tmp_path: Path, name: str) -> None:
    write_model(tmp_path / "m")
    (tmp_path / "m" / name).write_bytes(b"\x00garbage")
    model = open_model(tmp_path / "m")
    with pytest.raises(EmbeddingFailed):
        assert model.embed(["walrus"], "query").shape[1] == model.dimensions


def test_without_the_extra_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra) as caught:
        open_model(tmp_path / "m").embed(["walrus"], "query")
    assert "pip install 'tokenizers" in caught.value.next_action
