"""Configuration of TensorFlow Serving and Compose."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from client import add_options
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from keras_transformer.optional_dependencies import EXTRAS
from keras_transformer.serve import read_options
from keras_transformer.server.settings import Address

Field = descriptor_pb2.FieldDescriptorProto


def message_class(name: str, fields: dict[str, tuple[Any, ...]]) -> type[Any]:
    """Return the class of a message that the Python packages lack.

    Args:
        name: Its name.
        fields: Type, label and type name (None for scalars) of each field.
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="kit", syntax="proto3")
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name=name)
    for number, (field, (kind, label, type_name)) in enumerate(fields.items(), start=1):
        message.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"kit.{name}"))


WRAPPED = (Field.TYPE_MESSAGE, Field.LABEL_OPTIONAL, ".google.protobuf.Int64Value")


@pytest.fixture(scope="module")
def services(kit: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((kit / "compose.yaml").read_text(encoding="utf-8"))
    return found["services"]


@pytest.fixture(scope="module")
def compose(services: dict[str, Any]) -> dict[str, Any]:
    return services["translator"]


@pytest.fixture(scope="module")
def gateway(services: dict[str, Any]) -> dict[str, Any]:
    return services["gateway"]


@pytest.fixture(scope="module")
def batching(kit: Path) -> Any:
    # The fields of tensorflow_serving/servables/tensorflow/session_bundle_config.proto.
    parameters = message_class(
        "BatchingParameters",
        {
            "max_batch_size": WRAPPED,
            "batch_timeout_micros": WRAPPED,
            "max_enqueued_batches": WRAPPED,
            "num_batch_threads": WRAPPED,
            "thread_pool_name": (*WRAPPED[:2], ".google.protobuf.StringValue"),
            "allowed_batch_sizes": (Field.TYPE_INT64, Field.LABEL_REPEATED, None),
            "pad_variable_length_inputs": (Field.TYPE_BOOL, Field.LABEL_OPTIONAL, None),
        },
    )
    text = (kit / "serving/batching.config").read_text(encoding="utf-8")
    return text_format.Parse(text, parameters())


def test_models(kit: Path) -> None:
    text = (kit / "serving/models.config").read_text(encoding="utf-8")
    found = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())

    (model,) = found.model_config_list.config
    assert model.name == "en-de"
    assert model.base_path == "/models/en-de"
    assert model.model_platform == "tensorflow"
    assert model.model_version_policy.latest.num_versions == 2


def test_batch_sizes_are_valid_for_the_server(batching: Any) -> None:
    sizes = list(batching.allowed_batch_sizes)

    assert sizes == sorted(set(sizes))
    assert sizes[-1] == batching.max_batch_size.value
    assert batching.num_batch_threads.value >= 1
    assert 0 <= batching.batch_timeout_micros.value <= 100_000
    assert batching.max_enqueued_batches.value >= 1
    assert not batching.pad_variable_length_inputs


def test_requests_of_the_clients_fit_into_a_batch(batching: Any) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)

    assert parser.get_default("batch") <= batching.max_batch_size.value


def test_warm_up_requests_fit_into_a_batch(batching: Any) -> None:
    # A warm-up request that is refused keeps the version from loading.
    from keras_transformer.serving import warmup

    assert max(warmup.BATCHES) <= batching.max_batch_size.value


def test_monitoring(kit: Path) -> None:
    inner = message_class(
        "PrometheusConfig",
        {
            "enable": (Field.TYPE_BOOL, Field.LABEL_OPTIONAL, None),
            "path": (Field.TYPE_STRING, Field.LABEL_OPTIONAL, None),
        },
    )
    text = (kit / "serving/monitoring.config").read_text(encoding="utf-8")
    (body,) = re.findall(r"prometheus_config \{(.*)\}", text, re.DOTALL)
    found = text_format.Parse(body, inner())

    assert found.enable
    assert found.path == "/monitoring/prometheus/metrics"


def test_compose_mounts_the_files_of_its_flags(compose: dict[str, Any], kit: Path) -> None:
    mounts = {}
    for volume in compose["volumes"]:
        host, inside, mode = volume.split(":")
        assert mode == "ro"
        mounts[inside] = kit / host
    flags = dict(flag.removeprefix("--").split("=") for flag in compose["command"])
    files = {name: path for name, path in flags.items() if name.endswith("_file")}

    assert set(files) == {
        "model_config_file",
        "batching_parameters_file",
        "monitoring_config_file",
    }
    for path in files.values():
        folder, name = path.rsplit("/", 1)
        assert (mounts[folder] / name).is_file()
    assert flags["enable_batching"] == "true"
    assert mounts["/models"] == kit / "./models"


def test_compose_publishes_to_this_machine_only(compose: dict[str, Any]) -> None:
    assert [port.rsplit(":", 2) for port in compose["ports"]] == [
        ["127.0.0.1", "8500", "8500"],
        ["127.0.0.1", "8501", "8501"],
    ]


@pytest.mark.parametrize(
    ("states", "healthy"),
    [(["AVAILABLE"], True), (["LOADING", "AVAILABLE"], True), (["LOADING"], False), ([], False)],
)
def test_health_check(compose: dict[str, Any], rest: Any, states: list[str], healthy: bool) -> None:
    rest.status = {"model_version_status": [{"version": "1", "state": s} for s in states]}

    assert (health(compose, rest.http.server_port) == 0) == healthy


def test_health_check_without_a_server(compose: dict[str, Any], closed_port: int) -> None:
    assert health(compose, closed_port) != 0


def test_the_image_has_a_full_version(compose: dict[str, Any]) -> None:
    assert re.fullmatch(r"tensorflow/serving:\d+\.\d+\.\d+", compose["image"])


def test_the_gateway_is_started_only_on_request(services: dict[str, Any]) -> None:
    with_profile = {name: service.get("profiles") for name, service in services.items()}

    assert with_profile == {"translator": None, "gateway": ["gateway"]}


def test_the_gateway_leads_to_the_translator(
    gateway: dict[str, Any], compose: dict[str, Any]
) -> None:
    command, *words = gateway["command"]
    folder, settings, _, _ = read_options(words)

    assert (command, folder) == ("serve", None)
    assert settings.host == "0.0.0.0"
    upstream = Address.parse(settings.upstream)
    assert upstream.host in gateway["depends_on"]
    inside = [port.rsplit(":", 1)[1] for port in compose["ports"]]
    assert str(upstream.port) in inside
    limits = dict(flag.removeprefix("--").split("=") for flag in compose["command"])
    assert settings.timeout_s > int(limits["rest_api_timeout_in_ms"]) / 1000
    assert settings.max_body_mb * 1024 > settings.max_text_kb


def test_the_gateway_is_published_to_this_machine_beside_the_translator(
    gateway: dict[str, Any], compose: dict[str, Any]
) -> None:
    (port,) = gateway["ports"]
    address, outside, inside = port.rsplit(":", 2)

    assert (address, inside) == ("127.0.0.1", str(read_options(gateway["command"][1:])[1].port))
    assert outside not in {port.split(":")[1] for port in compose["ports"]}


def test_the_gateway_has_few_rights_and_little_memory(gateway: dict[str, Any]) -> None:
    assert gateway["read_only"] is True
    assert gateway["cap_drop"] == ["ALL"]
    assert gateway["security_opt"] == ["no-new-privileges:true"]
    assert gateway["mem_limit"] == "512m"
    assert "volumes" not in gateway


def test_the_gateway_is_built_with_what_it_needs(gateway: dict[str, Any], kit: Path) -> None:
    build = gateway["build"]
    dockerfile = (kit / build["context"] / "Dockerfile").read_text(encoding="utf-8")

    assert set(build["args"]) <= set(re.findall(r"(?m)^ARG (\w+)", dockerfile))
    assert build["args"]["EXTRAS"] in EXTRAS
    assert 'ENTRYPOINT ["keras-translate"]' in dockerfile


@pytest.mark.parametrize(("state", "healthy"), [("AVAILABLE", True), ("LOADING", False)])
def test_health_check_of_the_gateway(
    gateway: dict[str, Any], rest: Any, state: str, healthy: bool
) -> None:
    rest.status = {"model_version_status": [{"version": "1", "state": state}]}

    assert (health(gateway, rest.http.server_port) == 0) == healthy


def health(compose: dict[str, Any], port: int) -> int:
    """Return the exit status of the compose file's check on another port."""
    kind, *words = compose["healthcheck"]["test"]
    assert kind == "CMD"
    words = [re.sub(r"(?<=[/:])8501", str(port), word) for word in words]
    words = [sys.executable if word == "python" else word for word in words]
    return subprocess.run(words, capture_output=True, timeout=10).returncode
