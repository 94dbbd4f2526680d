from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.data.errors import DataError
from keras_transformer.data.pairs import read_pairs

tfds = pytest.importorskip("tensorflow_datasets")

EN_DE = {
    "train": [("one", "eins"), ("two\nlines", "zwei"), ("schön", "schön")],
    "validation": [("four", "vier")],
}


class TinyTranslate(tfds.core.GeneratorBasedBuilder):
    """A set of four sentences."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012
        tfds.core.BuilderConfig(name="de-en", description="d"),
        tfds.core.BuilderConfig(name="fr-en", description="d"),
    ]
    URL = "http://no.such.host.invalid/tiny.tar.gz"

    def _info(self):
        features = tfds.features.Translation(languages=self.builder_config.name.split("-"))
        return tfds.core.DatasetInfo(builder=self, features=features, description="d")

    def _split_generators(self, dl_manager):
        if self.builder_config.name == "fr-en":
            raise ConnectionError(f"cannot reach {self.URL}")
        return {name: self._generate_examples(name) for name in EN_DE}

    def _generate_examples(self, split):
        for number, (english, german) in enumerate(EN_DE[split]):
            yield number, {"en": english, "de": german}


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    return tmp_path


def texts(spec: str, source: str, target: str, split: str = "train") -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in read_pairs(spec, source, target, split)]


def test_a_local_set_in_both_directions() -> None:
    assert sorted(texts("tfds:tiny_translate/de-en", "en", "de")) == sorted(EN_DE["train"])
    backwards = sorted((german, english) for english, german in EN_DE["train"])
    assert sorted(texts("tfds:tiny_translate/de-en", "de", "en")) == backwards
    order = texts("tfds:tiny_translate/de-en", "en", "de")
    assert texts("tfds:tiny_translate/de-en", "en", "de") == order
    assert [pair.line for pair in read_pairs("tfds:tiny_translate/de-en", "en", "de")] == [1, 2, 3]


def test_splits_and_versions() -> None:
    validation = EN_DE["validation"]
    assert texts("tfds:tiny_translate/de-en:validation", "en", "de") == validation
    assert texts("tfds:tiny_translate/de-en", "en", "de", split="dev") == validation
    assert texts("tfds:tiny_translate/de-en:1.0.0:validation", "en", "de") == validation
    assert texts("tfds:tiny_translate/de-en:1.0.0", "en", "de", split="dev") == validation
    assert len(texts("tfds:tiny_translate/de-en:train[:2]", "en", "de")) == 2


def test_unknown_splits_name_the_known_ones() -> None:
    with pytest.raises(DataError, match="expected a split train, validation, got 'nosplit'"):
        texts("tfds:tiny_translate/de-en:nosplit", "en", "de")
    with pytest.raises(DataError, match="a split named test; it has train, validation"):
        texts("tfds:tiny_translate/de-en", "en", "de", split="test")


def test_unknown_languages_name_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"texts \(de, en\), got .en. and .zh. .*fr-en"):
        texts("tfds:tiny_translate/de-en", "en", "zh")
    with pytest.raises(DataError, match="got 'en' and 'en'"):
        texts("tfds:tiny_translate/de-en", "en", "en")
    with pytest.raises(DataError, match="it has none"):
        texts("tfds:mnist", "en", "de")


def test_unknown_sets_and_configurations() -> None:
    with pytest.raises(DataError) as caught:
        texts("tfds:no_such_set/de-en", "en", "de")
    assert str(caught.value) == "tfds:no_such_set/de-en: Dataset no_such_set not found."
    with pytest.raises(DataError, match=r"its configurations: de-en, fr-en"):
        texts("tfds:tiny_translate/xx-en", "en", "xx")
    with pytest.raises(DataError, match="expected tfds:NAME/CONFIG"):
        texts("tfds:", "en", "xx")


def test_a_failed_download_names_urls_and_folder(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TinyTranslate, "url_infos", {TinyTranslate.URL: None})
    with pytest.raises(DataError) as caught:
        texts("tfds:tiny_translate/fr-en", "fr", "en")
    message = str(caught.value)
    assert f"cannot reach {TinyTranslate.URL}" in message
    assert f"put these files, unchanged, into {data_folder}/downloads/manual:\n" in message
    assert f"\n  {TinyTranslate.URL}\n" in message
    assert f"to {data_folder}/tiny_translate/fr-en/1.0.0 " in message


def test_a_published_set_through_tfds_mocks() -> None:
    with tfds.testing.mock_data(num_examples=4):
        forward = texts("tfds:ted_hrlr_translate/pt_to_en", "pt", "en")
        backward = texts("tfds:ted_hrlr_translate/pt_to_en:test", "en", "pt")
        dev = texts("tfds:ted_hrlr_translate/pt_to_en", "pt", "en", split="dev")
        with pytest.raises(DataError, match=r"its texts \(en, pt\), got 'de' and 'en'"):
            texts("tfds:ted_hrlr_translate/pt_to_en", "de", "en")
    assert len(forward) == len(backward) == len(dev) == 4
    assert all(isinstance(text, str) and text for pair in forward for text in pair)
