"""Prometheus metrics, with TensorFlow Serving's names where it has them."""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

# TensorFlow Serving's buckets: microseconds from 10 to about 20 minutes, rows from 1 to 16384.
_MICROSECONDS = [10 * 1.8**power for power in range(33)]
_ROWS = [2**power for power in range(15)]
_SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30]
_COUNT = ":tensorflow:serving:request_count"


class Metrics:
    """Metrics of the server.

    Args:
        model: The model's name; a label of most metrics.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, model: str) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry()
        self.model = model
        self.requests = Counter(
            _COUNT,
            "Predict requests.",
            ["model_name", "status"],
            registry=self.registry,
        )
        self.request_latency = Histogram(
            ":tensorflow:serving:request_latency",
            "Microseconds from a request to its reply.",
            ["model_name", "API", "entrypoint"],
            buckets=_MICROSECONDS,
            registry=self.registry,
        ).labels(model, "Predict", "REST")
        self.examples = Histogram(
            ":tensorflow:serving:request_example_counts",
            "Rows of a request.",
            ["model"],
            buckets=_ROWS,
            registry=self.registry,
        ).labels(model)
        self._add_own()
        ProcessCollector(registry=self.registry)

    def _add_own(self) -> None:
        prefix = "keras_transformer_serve"
        self.queue_rows = Gauge(
            f"{prefix}_queue_rows", "Rows in the queue.", registry=self.registry
        )
        self.batch_rows = Histogram(
            f"{prefix}_batch_rows",
            "Rows of a batch.",
            ["signature"],
            buckets=_ROWS,
            registry=self.registry,
        )
        self.wait_seconds = Histogram(
            f"{prefix}_wait_seconds",
            "Seconds that a request waits for its first batch.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.run_seconds = Histogram(
            f"{prefix}_run_seconds",
            "Seconds that a batch runs.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.replies = Counter(
            f"{prefix}_replies", "HTTP replies.", ["code"], registry=self.registry
        )
        self.loads = Counter(
            f"{prefix}_loads", "Loaded versions.", ["status"], registry=self.registry
        )
        self.version = Gauge(
            f"{prefix}_version",
            "The version used for requests without a version.",
            registry=self.registry,
        )

    def count_request(self, code: str, seconds: float) -> None:
        """Count a predict request.

        Args:
            code: Name of TensorFlow's error code, OK for none.
            seconds: Its duration.
        """
        self.requests.labels(self.model, code).inc()
        if code == "OK":
            self.request_latency.observe(seconds * 1e6)

    def count_unknown_model(self) -> None:
        """Count a predict request for another model.

        Its name is not a label: clients could fill the memory with labels.
        """
        self.requests.labels("(unknown)", "NOT_FOUND").inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        # The client library appends _total to a counter's name, TensorFlow Serving does not.
        return generate_latest(self.registry).replace(f"{_COUNT}_total".encode(), _COUNT.encode())
