"""Jobs: one for each different configuration and seed, with keys of their content."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from keras_transformer.config import Config, DataConfig, from_dict, to_dict
from keras_transformer.lab.experiments import TABLE
from keras_transformer.lab.jobs import Corpus, by_training, make_job, make_jobs, read_corpus, slug
from tests.lab.fake_results import CORPUS, baseline


def changed(section: str, **fields: object) -> Config:
    return from_dict({section: fields}, baseline())


def key(config: Config, found: Corpus = CORPUS, seed: int = 1) -> str:
    return make_job("x", config, baseline(), seed, found).key


def test_equal_configurations_of_several_experiments_are_one_job() -> None:
    chosen = [TABLE.by_name[name] for name in ("heads", "unscaled-attention", "table-3")]
    names = [each.name for each in make_jobs(chosen, baseline(), 2, CORPUS)]
    assert sum(name.startswith("baseline") for name in names) == 2
    # "1 head", "one head" and "(A) h = 1" are the same network.
    assert [name for name in names if "1-head" in name] == ["1-head-seed1", "1-head-seed2"]
    assert not any("one-head-seed" in name or "a-h-1-seed" in name for name in names)


def test_the_first_seed_of_all_comes_before_the_second() -> None:
    seeds = [each.seed for each in make_jobs([TABLE.by_name["heads"]], baseline(), 3, CORPUS)]
    assert seeds == sorted(seeds)
    assert set(seeds) == {1, 2, 3}


def test_searches_share_one_training() -> None:
    found = make_jobs([TABLE.by_name["beam"]], baseline(), 1, CORPUS)
    assert len(by_training(found)) == 1
    assert len({each.key for each in found}) == len(found) == 14
    assert [each.searches_only for each in found] == [False] + [True] * 13


def test_a_key_depends_on_what_changes_the_result() -> None:
    plain = key(baseline())
    assert key(changed("model", heads=2)) != plain
    assert key(changed("train", max_steps=7)) != plain
    assert key(baseline(), seed=2) != plain
    assert key(baseline(), Corpus("multi30k/train", "other content")) != plain
    assert key(changed("train", log_every=7, keep_best=3, tensorboard=True)) == plain
    assert key(changed("data", train="/elsewhere/train", dev="/elsewhere/val")) == plain
    assert key(baseline(), Corpus("other name", CORPUS.identity)) == plain


def test_a_field_with_its_default_does_not_count() -> None:
    """An option that a later version adds must change no key."""
    fields = to_dict(baseline())
    assert fields["model"]["d_key"] == Config().model.d_key == 0
    assert key(from_dict(fields)) == key(baseline())


def test_a_corpus_is_known_by_its_content(tmp_path: Path) -> None:
    found = []
    for place, text in (("a", "eins\n"), ("b", "eins\n"), ("c", "zwei\n")):
        folder = tmp_path / place
        folder.mkdir()
        for name in ("train.en", "train.de", "val.en", "val.de"):
            (folder / name).write_text(text)
        data = DataConfig(f"{folder}/train", f"{folder}/val", "en", "de")
        found.append(read_corpus(dataclasses.replace(baseline(), data=data)))
    assert [each.name for each in found] == [f"{name}/train {name}/val" for name in "abc"]
    assert found[0].identity == found[1].identity != found[2].identity


def test_names_of_files() -> None:
    assert slug("one head, no √d_k") == "one-head-no-sqrt-d-k"
    assert slug("Pre-LN, ¼ rate, no warm-up") == "pre-ln-quarter-rate-no-warm-up"
    assert slug("β₂ = .999") == "beta2-999"
