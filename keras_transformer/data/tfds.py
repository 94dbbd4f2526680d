"""Translation datasets of TensorFlow Datasets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.data.errors import DataError
from keras_transformer.optional_dependencies import require_installed

# Names of the dev split in various datasets.
_DEV_SPLITS = ("validation", "dev", "valid", "val")

# NAME[/CONFIG][:VERSION][:SPLIT]; a split may be a slice, as in train[:10%].
_SPEC = re.compile(r"(?P<name>[^:]+(:\d+\.[\d*]+\.[\d*]+)?)(:(?P<split>.+))?")


def read(spec: str, source: str, target: str, split: str) -> Iterator[tuple[str, str]]:
    """Stream the pairs of a dataset, downloading it the first time.

    Args:
        spec: ``NAME/CONFIG[:SPLIT]``, such as ``wmt14_translate/de-en:test``.
        source: Source language code. The order of the codes in CONFIG does not matter.
        target: Target language code.
        split: Split to read if ``spec`` names none; ``dev`` stands for any usual name.

    Raises:
        DataError: No such dataset, language or split, or it could not be downloaded.
    """
    require_installed(f"tfds:{spec}", ["tensorflow_datasets"])
    match = _SPEC.fullmatch(spec)
    if not match:
        raise DataError(f"tfds:{spec}: expected tfds:NAME/CONFIG or tfds:NAME/CONFIG:SPLIT")
    name = match["name"]
    builder = _builder(name)
    _check_languages(builder, name, source, target)
    _prepare(builder, name)
    split = match["split"] or _default_split(builder, name, split)
    import tensorflow_datasets as tfds

    try:
        dataset = builder.as_dataset(split=split, shuffle_files=False)
    except ValueError as error:
        raise DataError(
            f"tfds:{name}: expected a split {', '.join(builder.info.splits)}, got {split!r}"
        ) from error
    for example in tfds.as_numpy(dataset):
        yield example[source].decode("utf-8"), example[target].decode("utf-8")


def _builder(name: str) -> Any:
    import tensorflow_datasets as tfds

    try:
        return tfds.builder(name)
    except ValueError as error:
        # The other lines of its message list all datasets.
        first = str(error).splitlines()[0]
        raise DataError(f"tfds:{name}: {first}{_config_hint(name)}") from error


def _config_hint(name: str) -> str:
    """Return the configurations of a dataset, to append to a message; "" if it has none."""
    import tensorflow_datasets as tfds

    try:
        configs = sorted(tfds.builder_cls(re.split("[/:]", name)[0]).builder_configs)
    except ValueError:
        return ""
    if not configs:
        return ""
    return f" (its configurations: {', '.join(configs[:40])}{', ...' if configs[40:] else ''})"


def _check_languages(builder: Any, name: str, source: str, target: str) -> None:
    import tensorflow_datasets as tfds

    features = builder.info.features
    languages = []
    if isinstance(features, tfds.features.FeaturesDict):
        texts = (key for key in features if isinstance(features[key], tfds.features.Text))
        languages = sorted(texts)
    wanted = {source, target}
    if len(wanted) < 2 or not wanted <= set(languages):
        raise DataError(
            f"tfds:{name}: expected data.source and data.target among its texts "
            f"({', '.join(languages) or 'it has none'}), got {source!r} and {target!r}"
            f"{_config_hint(name)}"
        )


def _default_split(builder: Any, name: str, split: str) -> str:
    splits = list(builder.info.splits)
    candidates = _DEV_SPLITS if split == "dev" else (split,)
    for candidate in candidates:
        # Mocked datasets have no list of splits.
        if candidate in splits or not splits:
            return candidate
    raise DataError(
        f"tfds:{name}: expected a split named {' or '.join(candidates)}; it has "
        f"{', '.join(splits)}: choose one as tfds:{name}:SPLIT"
    )


def _prepare(builder: Any, name: str) -> None:
    """Download and convert the dataset unless that was done before."""
    try:
        builder.download_and_prepare()
    except Exception as error:  # network, checksum, disk or parser errors of many types
        raise DataError(_failure(builder, name, error)) from error


def _failure(builder: Any, name: str, error: Exception) -> str:
    """Describe the failure and how to provide the files by hand."""
    folder = Path(builder.data_dir)
    # data_dir is ROOT/NAME/CONFIG/VERSION.
    root = folder.parents[len(Path(builder.info.full_name).parts) - 1]
    manual = root / "downloads" / "manual"
    reason = str(error).strip().splitlines() or [type(error).__name__]
    lines = [f"tfds:{name}: could not be downloaded or prepared ({reason[0]})"]
    urls = _urls(builder)
    if urls:
        lines.append(f"Without a network, put these files, unchanged, into {manual}:")
        lines += [f"  {url}" for url in urls]
    if builder.MANUAL_DOWNLOAD_INSTRUCTIONS:
        lines.append(f"For {manual}: {builder.MANUAL_DOWNLOAD_INSTRUCTIONS.strip()}")
    lines.append(
        f"Or copy the set as prepared on another machine to {folder} "
        f"(TFDS_DATA_DIR, now {os.environ.get('TFDS_DATA_DIR', 'not set')}, moves {root})."
    )
    return "\n".join(lines)


def _urls(builder: Any) -> list[str]:
    try:
        return sorted(builder.url_infos)
    except Exception:  # a dataset without recorded checksums; only the hint is lost
        return []
