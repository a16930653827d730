# syntax=docker/dockerfile:1
# `make release` makes the same files without a builder: package/image/steps.sh is the list of steps,
# and what follows the second FROM is the image's configuration for both.
FROM debian:trixie-slim AS build
ARG SOURCE_DATE_EPOCH=0
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates mmdebstrap python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements-build.txt ./
RUN python3 -m venv /uv \
 && /uv/bin/pip install --no-cache-dir --require-hashes --requirement requirements-build.txt
COPY . .
RUN PATH="/uv/bin:$PATH" package/image/steps.sh /src /out "$(dpkg --print-architecture)"

FROM scratch
COPY --from=build /out/base /
COPY --from=build /out/packages /
COPY --from=build /out/function /
# 9443: RunFunction and gRPC health over mTLS. 8080: Prometheus metrics.
EXPOSE 9443 8080
ENV METRICS_PORT=8080 PYTHONUNBUFFERED=1
# Numeric, so that runAsNonRoot can be checked: the image has no /etc/passwd.
USER 65532:65532
ENTRYPOINT ["/usr/bin/python3.13", "-P", "-m", "function.main"]
