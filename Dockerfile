# The one image: every service is a command of it. docker-compose.yml shows how each is run.
# Build: docker build --tag gangline .

FROM python:3.11.14-slim-bookworm AS build
WORKDIR /src
COPY requirements ./requirements
RUN python -m venv /opt/gangline \
 && /opt/gangline/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
      -r requirements/run.txt -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY libs ./libs
COPY services ./services
RUN /opt/gangline/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

FROM python:3.11.14-slim-bookworm
LABEL org.opencontainers.image.title="gangline" \
      org.opencontainers.image.description="A scheduler for GPU and deep-learning jobs" \
      org.opencontainers.image.licenses="Apache-2.0"
# The folders exist with their owner, so that fresh volumes mounted there belong to the user who needs them.
RUN groupadd --gid 10001 gangline \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/gangline --shell /usr/sbin/nologin gangline \
 && install --directory --owner=gangline --group=gangline --mode=0700 \
      /var/lib/gangline /var/lib/gangline-keys /var/lib/gangline-nats \
      /var/lib/gangline-keys/gateway /var/lib/gangline-keys/admission /var/lib/gangline-keys/queue \
      /var/lib/gangline-keys/placement /var/lib/gangline-keys/elastic /var/lib/gangline-keys/telemetry \
      /var/lib/gangline-keys/accounting /var/lib/gangline-keys/recorder /var/lib/gangline-keys/agent \
      /var/lib/gangline-keys/kubernetes /var/lib/gangline-keys/nats /var/lib/gangline-keys/grafana \
      /var/lib/gangline-keys/reader \
      /var/lib/gangline-prometheus /var/lib/gangline-grafana
COPY --from=build /opt/gangline /opt/gangline
ENV PATH=/opt/gangline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/gangline
EXPOSE 8470
CMD ["gangline", "--help"]
