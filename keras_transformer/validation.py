"""Checks of configuration values: each names the field, what was expected and what came."""

from __future__ import annotations

from keras_transformer.errors import UserError


class ConfigError(UserError):
    """A configuration value that cannot be used; the message names the field."""


def require(condition: bool, name: str, expected: str, received: object) -> None:
    """Refuse a value, called by its whole name, unless ``condition`` holds."""
    if not condition:
        raise ConfigError(f"{name}: expected {expected}, got {received!r}")


def require_positive(config: object, section: str, *names: str) -> None:
    """Refuse fields of a section that are not above 0."""
    for name in names:
        value = getattr(config, name)
        require(value > 0, f"{section}.{name}", "a number above 0", value)


def require_choice(config: object, section: str, name: str, choices: object) -> None:
    """Refuse a field whose value is not among those of a ``Literal``."""
    value = getattr(config, name)
    valid = choices.__args__  # type: ignore[attr-defined]
    require(value in valid, f"{section}.{name}", "one of " + ", ".join(valid), value)
