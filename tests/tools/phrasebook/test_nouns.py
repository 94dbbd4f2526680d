"""The number of nouns in the corpus."""

from __future__ import annotations

import re

from keras_transformer.data.phrasebook import SPLITS, pairs
from tools.phrasebook import nouns


def test_one_goes_with_singular_and_numbers_with_plural() -> None:
    singular = {noun.en for noun in (*nouns.CLOTHES, *nouns.VEHICLES, *nouns.FARM_ANIMALS)}
    singular -= {noun.en for noun in nouns.PETS + nouns.FARM_ANIMALS if noun.plural == noun.en}
    numbers = "two|three|four|five|six|seven|many|some|several|these|those|few"
    wrong = re.compile(rf"\b({numbers}) ({'|'.join(singular)})\b", re.IGNORECASE)
    for english in (english for split in SPLITS for english, _ in pairs(split)):
        assert not wrong.search(english), english
