"""Translate lines with a model behind TensorFlow Serving, over REST.

  python export/rest_client.py --model en-de "A dog runs." "A man sleeps."
  python export/rest_client.py --model en-de --file text.en > text.de
  cat text.en | python export/rest_client.py --url http://host:8501 --model en-de --n-best 3

Each line of input has one line of output, in the same order. Requests are repeated after 429,
502, 503, 504 and broken connections, never after other errors. A server on this machine is called
directly, others through the proxy that http_proxy, https_proxy and no_proxy name. Exit status: 0
done, 1 the server failed or did not reply, 2 it refused the request or an option is wrong.
"""

from __future__ import annotations

import argparse
import email.utils
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import requests
from client import (
    Failure,
    Retries,
    TransientFailure,
    add_options,
    add_url,
    exit_status,
    is_local,
    positive_number,
    predict_path,
    without_password,
)
from lines import translate

# Overload; a model that is being replaced; a broken connection or a timeout behind a proxy.
TRANSIENT = {429, 502, 503, 504}
# Overrides http_proxy and the like.
DIRECT = {"http": "", "https": ""}


class RestClient:
    """Client of one model's ``:predict`` method, for use in several threads.

    Args:
        url: Scheme, host and port of the server.
        model: Name of the model in ``models.config``.
        version: A version number; default: the newest loaded version.
        label: A label instead of a version number.
        timeouts: Seconds to connect, and seconds to wait for a reply.
        retries: How failed requests are repeated.
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
        self._address = url.rstrip("/") + predict_path(model, version, label)
        self._timeouts = timeouts
        self._retries = retries or Retries()
        self._proxies = proxies(self._address)
        self._route = route(self._address, self._proxies)
        self._threads = threading.local()  # a requests.Session is for one thread

    def predict(self, signature: str, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Call a signature whose only input is ``text``.

        Args:
            signature: Its name, such as ``translate``.
            texts: Sentences, one row each.

        Returns:
            The outputs by name for each sentence, in order.

        Raises:
            Failure: The server refuses the request, keeps failing, or sends an invalid reply.
        """
        rows = [{"text": text} for text in texts]
        body = {"signature_name": signature, "instances": rows}
        reply = self._retries.call(lambda: self._send(body))
        predictions = reply.get("predictions")
        if not isinstance(predictions, list) or len(predictions) != len(texts):
            raise Failure(f"{self._address}: expected {len(texts)} predictions, got {reply!s:.200}")
        return predictions

    def _send(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request once."""
        try:
            response = self._session().post(
                self._address,
                json=body,
                timeout=self._timeouts,
                allow_redirects=False,
                proxies=self._proxies,
            )
        except requests.ConnectTimeout:
            message = f"{self._address}: no connection in {self._timeouts[0]:g} s{self._route}"
            raise TransientFailure(message) from None
        except requests.Timeout:
            message = f"{self._address}: no answer in {self._timeouts[1]:g} s{self._route}"
            raise TransientFailure(message) from None
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            raise TransientFailure(f"{self._address}: {_cause(error)}{self._route}") from None
        except (requests.RequestException, ValueError) as error:
            raise Failure(f"{self._address}: {error}{self._route}", 2) from None
        try:
            reply = response.json()
        except requests.JSONDecodeError:
            reply = {"error": response.text[:200] or response.reason}
        if response.status_code == 200 and isinstance(reply, dict):
            return reply
        message = reply.get("error", reply) if isinstance(reply, dict) else reply
        problem = f"{self._address}: {response.status_code} {message}{self._route}"
        if response.status_code not in TRANSIENT:
            raise Failure(problem, 2 if 300 <= response.status_code < 500 else 1)
        raise TransientFailure(problem, _seconds(response.headers.get("Retry-After", "")))

    def _session(self) -> requests.Session:
        if not hasattr(self._threads, "session"):
            self._threads.session = requests.Session()
        session: requests.Session = self._threads.session
        return session


def proxies(url: str) -> dict[str, str]:
    """Return the proxies of an address for requests: those of the environment, or none."""
    if is_local(urlsplit(url).hostname or ""):
        return DIRECT
    return requests.utils.get_environ_proxies(url) or DIRECT


def route(url: str, proxies: dict[str, str]) -> str:
    """Return the end of an error message: the proxy that a request went through, if any."""
    proxy = requests.utils.select_proxy(url, proxies)
    return f" (through the proxy {without_password(proxy)}; see no_proxy)" if proxy else ""


def _cause(error: BaseException) -> str:
    """Return the innermost reason; urllib3 wraps `connection refused` several times."""
    while error.__context__ is not None:
        error = error.__context__
    return getattr(error, "strerror", None) or str(error)


def _seconds(retry_after: str) -> float:
    """Return the seconds of a Retry-After header (a number or a date), 0 if it has neither."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Translate sentences, a file or standard input."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_url(parser)
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
