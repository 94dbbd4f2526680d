"""The table of experiments: valid configurations, changes of the baseline, diagrams."""

from __future__ import annotations

import pytest

from keras_transformer.config import Config, ConfigError, from_dict
from keras_transformer.lab.diagrams import diagram
from keras_transformer.lab.experiment import Default, Experiment, Table, Times, Variant
from keras_transformer.lab.experiments import TABLE
from keras_transformer.lab.jobs import differences
from tests.lab.fake_results import baseline


def experiment(*variants: Variant) -> Experiment:
    return Experiment("mine", "mine", variants, ("search",), "a", "b", "c", "d")


@pytest.mark.parametrize("name", TABLE.by_name)
def test_every_experiment_is_valid_and_changes_something(name: str) -> None:
    it = TABLE.by_name[name]
    variants = it.variants_of(baseline())
    assert len(variants) > 1
    for variant, config in variants.values():
        changed = differences(baseline(), config).keys()
        assert changed <= variant.changes.keys()
    assert diagram(it.boxes).count('changed"') >= len(it.boxes)


@pytest.mark.parametrize(
    "subject",
    [
        "√d_k",
        "positions",
        "learned, rotary and ALiBi",
        "up to 15 tokens",
        "rate from step 1",
        "12 + 12",
        "label smoothing",
        "dropout",
        "heads",
        "residual",
        "layer normalization",
        "batch normalization",
        "feed-forward",
        "d_k halved",
        "embeddings",
        "√d_model",
        "β₂",
        "fixed number of tokens",
        "characters",
        "beams",
        "recurrent",
        "Table 3",
    ],
)
def test_the_choices_of_the_paper_have_an_experiment(subject: str) -> None:
    assert any(subject in each.title for each in TABLE.experiments)


def test_changes_are_values_multiples_or_defaults() -> None:
    base = from_dict({"train": {"max_steps": 100, "learning_rate_factor": 2.0, "seed": 7}})
    config = Variant(
        "mine",
        {
            "train.max_steps": Times(0.255),
            "train.learning_rate_factor": Times(0.25),
            "train.seed": Default(),
            "model.heads": 4,
        },
    ).config(base)
    # 100 * 0.255 is a number of steps, rounded; 1 is the default seed.
    assert config.train.max_steps == 26
    assert config.train.learning_rate_factor == 0.5
    assert (config.train.seed, config.model.heads) == (1, 4)


def test_a_variant_that_equals_the_baseline_is_left_out() -> None:
    it = experiment(Variant("8", {"model.heads": 8}), Variant("4", {"model.heads": 4}))
    assert list(it.variants_of(Config())) == ["baseline", "4"]


def test_an_impossible_variant_is_named() -> None:
    it = experiment(Variant("three heads", {"model.heads": 3}))
    with pytest.raises(ConfigError, match="mine, variant three heads: model.d_model: expected a"):
        it.variants_of(Config())


def test_mistakes_in_the_table_are_refused() -> None:
    with pytest.raises(ValueError, match="different names of variants"):
        experiment(Variant("a", {}), Variant("a", {}))
    with pytest.raises(ValueError, match="no variant 'b' to compare with"):
        experiment(Variant("a", {}, against="b"))
    with pytest.raises(ValueError, match="experiments of different names"):
        Table((experiment(), experiment()))
    with pytest.raises(ValueError, match="boxes of the diagram, got nothing"):
        diagram(["nothing"])


def test_batches_of_other_sizes_have_one_rate_at_each_number_of_tokens() -> None:
    """After the peak the rate is factor / sqrt(d_model * step)."""
    it = TABLE.by_name["batch-size"]
    rates, tokens, peaks = set(), set(), set()
    for _, config in it.variants_of(baseline()).values():
        train = config.train
        rates.add(round(train.learning_rate_factor / train.max_steps**0.5, 9))
        peaks.add(round(train.learning_rate_factor / train.warmup_steps**0.5, 9))
        tokens.add(train.max_steps * train.batch_tokens)
    assert (len(rates), len(peaks), len(tokens)) == (1, 1, 1)
