"""Translate lines with a model behind TensorFlow Serving, over REST.

  python export/rest_client.py --model en-de "A dog runs." "A man sleeps."
  python export/rest_client.py --model en-de --file text.en > text.de
  cat text.en | python export/rest_client.py --url http://host:8501 --model en-de --n-best 3

One line of output for each line of input, in the same order. Requests are sent again after
429, 503, 504 and broken connections, never after other errors. Exit status: 0 done, 1 the
server failed or did not answer, 2 it refused the request or an option is wrong.
"""

from __future__ import annotations

import argparse
import email.utils
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import requests
from lines import (
    Failure,
    Retries,
    add_options,
    exit_status,
    http_url,
    positive_number,
    translate,
)

# Overload, a model that is being replaced, a time-out in the server: later may go well.
AGAIN = {429, 503, 504}


class RestClient:
    """Calls ``:predict`` of one model; may be used from several threads.

    Args:
        url: Scheme, host and port of the server.
        model: Its name in ``models.config``.
        version: A version of it, None for the newest one loaded.
        label: A label instead of a version.
        timeouts: Seconds to connect, and seconds to wait for an answer.
        retries: How often to try.
    """

    def __init__(
        self,
        url: str,
        model: str,
        version: int | None = None,
        label: str | None = None,
        timeouts: tuple[float, float] = (3.0, 35.0),
        retries: Retries | None = None,
    ) -> None:
        path = f"/v1/models/{quote(model, safe='')}"
        if version is not None:
            path += f"/versions/{version}"
        elif label is not None:
            path += f"/labels/{quote(label, safe='')}"
        self._address = f"{url.rstrip('/')}{path}:predict"
        self._timeouts = timeouts
        self._retries = retries or Retries()
        self._threads = threading.local()  # a requests.Session is for one thread

    def predict(self, signature: str, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Ask for the outputs of a signature that takes ``text`` alone.

        Args:
            signature: Such as ``translate``.
            texts: Sentences, one row each.

        Returns:
            For each sentence, in order, the outputs by name.

        Raises:
            Failure: The server refuses, keeps failing, or answers what it should not.
        """
        rows = [{"text": text} for text in texts]
        body = {"signature_name": signature, "instances": rows}
        attempt = 1
        while True:
            reply, problem, wait = self._once(body)
            if reply is not None:
                break
            if not self._retries.again(attempt, wait):
                raise Failure(f"{problem} ({attempt} tries)")
            attempt += 1
        predictions = reply.get("predictions")
        if not isinstance(predictions, list) or len(predictions) != len(texts):
            raise Failure(f"{self._address}: expected {len(texts)} predictions, got {reply!s:.200}")
        return predictions

    def _once(self, body: dict[str, Any]) -> tuple[dict[str, Any] | None, str, float]:
        """The reply, or None with what went wrong and the seconds that the server asks for."""
        try:
            response = self._session().post(
                self._address, json=body, timeout=self._timeouts, allow_redirects=False
            )
        except requests.ConnectTimeout:
            return None, f"{self._address}: no connection in {self._timeouts[0]:g} s", 0.0
        except requests.Timeout:
            return None, f"{self._address}: no answer in {self._timeouts[1]:g} s", 0.0
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            return None, f"{self._address}: {_cause(error)}", 0.0
        except (requests.RequestException, ValueError) as error:
            raise Failure(f"{self._address}: {error}", 2) from None
        try:
            reply = response.json()
        except requests.JSONDecodeError:
            reply = {"error": response.text[:200] or response.reason}
        if response.status_code == 200 and isinstance(reply, dict):
            return reply, "", 0.0
        message = reply.get("error", reply) if isinstance(reply, dict) else reply
        problem = f"{self._address}: {response.status_code} {message}"
        if response.status_code not in AGAIN:
            raise Failure(problem, 2 if 300 <= response.status_code < 500 else 1)
        return None, problem, _seconds(response.headers.get("Retry-After", ""))

    def _session(self) -> requests.Session:
        if not hasattr(self._threads, "session"):
            self._threads.session = requests.Session()
        session: requests.Session = self._threads.session
        return session


def _cause(error: BaseException) -> str:
    """The innermost reason; urllib3 wraps `connection refused` several times."""
    while error.__context__ is not None:
        error = error.__context__
    return getattr(error, "strerror", None) or str(error)


def _seconds(retry_after: str) -> float:
    """Seconds in a Retry-After header, which holds a number or a date; 0 without either."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Translate what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--url", type=http_url, default="http://127.0.0.1:8501", help="server (%(default)s)"
    )
    parser.add_argument(
        "--connect-timeout",
        type=positive_number,
        default=3.0,
        metavar="SECONDS",
        help="longest wait for a connection (%(default)s)",
    )
    add_options(parser)
    options = parser.parse_args(argv)
    retries = Retries(options.attempts)
    client = RestClient(
        options.url,
        options.model,
        options.version,
        options.label,
        (options.connect_timeout, options.timeout),
        retries,
    )
    return exit_status(lambda: translate(options, client.predict, retries))


if __name__ == "__main__":
    sys.exit(main())
