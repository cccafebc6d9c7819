# The image that helm/upquery runs: `docker build -t upquery:0.1.0 .`
# Versions are arguments; the tests run on this version of Python.
ARG PYTHON_VERSION=3.11
ARG DEBIAN=bookworm
# Digest of the base image, "@sha256:…". Releases set it (CONTRIBUTING.md); without it the tag selects the image.
ARG BASE_DIGEST=

FROM python:${PYTHON_VERSION}-slim-${DEBIAN}${BASE_DIGEST} AS build
# Extras of pyproject.toml, without Spark and the demo's database.
ARG EXTRAS=jwt,kafka,mysql,otel,zstd
# 1: modules of the hot path are compiled (hatch_build.py).
ARG COMPILE=
RUN ["/bin/sh", "-c", "[ -z \"$COMPILE\" ] || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev; }"]
COPY . /src
RUN ["/bin/sh", "-c", "UPQUERY_COMPILE=$COMPILE /src/helm/image/build.sh /src /opt/upquery \"$EXTRAS\""]

FROM python:${PYTHON_VERSION}-slim-${DEBIAN}${BASE_DIGEST}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="upquery" \
      org.opencontainers.image.description="SQL views answered from memory, maintained incrementally from your database's change stream" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}"
# libpq needs an entry for the user id in /etc/passwd. Written folders are volumes: the root file system may be read-only.
RUN ["/bin/sh", "-c", "useradd --system --uid 10001 --user-group --home-dir /tmp --shell /usr/sbin/nologin upquery && install -d -o 10001 -g 10001 /var/lib/upquery /run/upquery /var/log/upquery"]
COPY --from=build /opt/upquery /opt/upquery
ENV PATH=/opt/upquery/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp
USER 10001:10001
WORKDIR /var/lib/upquery
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# Kubernetes ignores it and has its own probes; the admin port is 8081 unless it is set.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ.get('UPQUERY_HTTP__ADMIN_PORT', '8081')}/livez\", timeout=2)"]
ENTRYPOINT ["upquery"]
CMD ["serve"]
