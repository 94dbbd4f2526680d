"""Stop signals."""

from __future__ import annotations

import signal

import pytest

from keras_transformer.stop_signals import stop_signals


def test_stop_signals_are_those_that_are_not_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    ignored = {signal.SIGHUP}
    monkeypatch.setattr(
        signal,
        "getsignal",
        lambda number: signal.SIG_IGN if number in ignored else signal.SIG_DFL,
    )
    assert stop_signals() == [signal.SIGTERM, signal.SIGINT, signal.SIGXCPU]
    ignored.clear()
    assert signal.SIGHUP in stop_signals()
    for name in ("SIGHUP", "SIGXCPU"):
        monkeypatch.delattr(signal, name)  # Windows
    assert stop_signals() == [signal.SIGTERM, signal.SIGINT]
