# The image of the daemon (the last stage, the default) and of Spark executors (--target executor):
#
#     docker build --tag lakeward:0.1.0 .
#     docker build --tag lakeward-executor:0.1.0 --target executor .
#
# The root file system may be read-only; what is written goes to /var/lib/lakeward and /tmp. Python and Java are the
# distribution's own packages, so that building anew takes the distribution's security fixes. docs/start/install.md says more.

# The tag of a point release. Put the digest that your registry shows behind it (@sha256:...) for builds that repeat.
ARG DEBIAN=debian:12.12-slim

# What every stage stands on: the distribution with its fixes, and its Python.
FROM ${DEBIAN} AS python
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
# Versions are left to the distribution: a pinned one would keep a fixed hole open.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get upgrade --yes --no-install-recommends \
    && apt-get install --yes --no-install-recommends ca-certificates python3.11 tzdata \
    && rm -rf /var/lib/apt/lists/*

# Everything that is compiled or fetched happens here; of this stage only /opt/lakeward is kept.
FROM python AS builder
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.11-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY requirements-build.lock requirements-run.lock ./
# Every archive is checked against its hash; what comes as source is built with the locked tools and nothing else.
RUN python3.11 -m venv /opt/build \
    && /opt/build/bin/python -m pip install --no-cache-dir --require-hashes --requirement requirements-build.lock \
    && /opt/build/bin/python -m pip wheel --no-cache-dir --require-hashes --no-build-isolation --use-pep517 \
        --wheel-dir wheels --requirement requirements-run.lock
COPY pyproject.toml README.md LICENSE ./
COPY migrations migrations
COPY service service
RUN /opt/build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels . \
    && python3.11 -m venv /opt/lakeward \
    && /opt/lakeward/bin/python -m pip install --no-cache-dir --no-deps --no-index wheels/*.whl \
    && /opt/lakeward/bin/python -m pip check \
    && /opt/lakeward/bin/python -m pip uninstall --yes pip
# The kernels, for any processor of this architecture: an image built on a new machine has to run on an old one.
RUN /opt/lakeward/bin/lakeward warm

# What daemon and executors share, byte for byte.
FROM python AS runtime
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 lakeward \
    && useradd --uid 10001 --gid lakeward --home-dir /var/lib/lakeward --no-create-home --shell /usr/sbin/nologin lakeward \
    && install --directory --owner=lakeward --group=lakeward --mode=0750 /var/lib/lakeward
COPY --from=builder /opt/lakeward /opt/lakeward
# State belongs to /var/lib/lakeward even where the configuration does not say so.
ENV PATH=/opt/lakeward/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/lakeward/bin/python \
    SPARK_HOME=/opt/lakeward/lib/python3.11/site-packages/pyspark \
    XDG_CACHE_HOME=/tmp/cache \
    XDG_STATE_HOME=/var/lib
USER 10001:10001
WORKDIR /var/lib/lakeward
# As this user nothing under /opt can be written: it proves that the kernels are found and fit.
RUN ["lakeward", "warm", "--check"]

# Spark executors with exactly the daemon's packages: spark.kubernetes.executor.container.image, or a standalone worker.
FROM runtime AS executor
LABEL org.opencontainers.image.title="Lakeward executor" \
      org.opencontainers.image.description="Spark executor with the packages that Lakeward's operations need" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY --chmod=0555 deploy/executor/entrypoint /usr/local/bin/lakeward-executor
STOPSIGNAL SIGTERM
# The cluster manager watches its executors itself.
HEALTHCHECK NONE
ENTRYPOINT ["tini", "--", "lakeward-executor"]
CMD ["executor"]

FROM runtime AS daemon
LABEL org.opencontainers.image.title="Lakeward" \
      org.opencontainers.image.description="An always-on table-service daemon for Apache Hudi tables" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
VOLUME ["/var/lib/lakeward"]
EXPOSE 8490
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8490, timeout=4); c.request('GET', '/-/healthy'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["lakeward"]
CMD ["run", "--config", "/etc/lakeward/lakeward.toml"]
