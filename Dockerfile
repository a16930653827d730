# syntax=docker/dockerfile:1
# Both stages are of one Debian and one Python: a venv built on one and run on another breaks.
FROM python:3.13.9-slim-trixie AS build
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
RUN python -m pip install --no-cache-dir uv==0.13.8
WORKDIR /src
COPY pyproject.toml requirements.txt README.md LICENSE ./
# The dependencies first: they change seldom, and their layer is the large one.
RUN uv venv /venv && uv pip install --no-cache --python /venv/bin/python -r requirements.txt
COPY function ./function
COPY programs ./programs
# Only what answers calls: the command line (kv_offload, and rich) is for people's own machines.
RUN uv pip install --no-cache --python /venv/bin/python --no-deps . && rm /venv/bin/kv-offload

FROM python:3.13.9-slim-trixie
COPY --from=build /venv /venv
# 9443: RunFunction and gRPC health over mTLS. 8080: Prometheus metrics.
EXPOSE 9443 8080
ENV METRICS_PORT=8080 PYTHONUNBUFFERED=1
# Numeric, so that runAsNonRoot can be checked without the image's /etc/passwd.
USER 65532:65532
ENTRYPOINT ["/venv/bin/function"]
