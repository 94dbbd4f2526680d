# Training, export and the local server in one image. No test builds it.
#
#   docker build -t keras-translate .
#   docker run --rm -v "$PWD/runs:/app/runs" keras-translate train --run runs/phrasebook
#   docker run --rm -v "$PWD/runs:/app/runs" -v "$PWD/export/models:/app/models" \
#       keras-translate export --run runs/phrasebook --to models/phrasebook
#   docker run --rm -p 8501:8501 -v "$PWD/export/models:/app/models" \
#       keras-translate serve models/phrasebook --host 0.0.0.0
#
# With NVIDIA GPUs: docker build --build-arg EXTRAS=all,gpu ..., docker run --gpus all ...
FROM python:3.12-slim

ARG EXTRAS=all
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY keras_transformer keras_transformer
RUN pip install --no-cache-dir ".[${EXTRAS}]"

WORKDIR /app
EXPOSE 8501
ENTRYPOINT ["keras-translate"]
CMD ["--help"]
