# syntax=docker/dockerfile:1
# The gateway and the dispatcher in one image; the command says which: `serve` or `dispatch`.
# Its configuration and your modules belong in /app, see docs/docker.md.

ARG PYTHON=3.13-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/gateway
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY executors executors
COPY plugins plugins
COPY lua lua
RUN --mount=type=cache,target=/root/.cache/pip pip --python /opt/gateway/bin/python install .

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="event-gateway" \
      org.opencontainers.image.description="Webhooks and jobs into Redis priority lanes, run by executor plugins" \
      org.opencontainers.image.licenses="Apache-2.0"
# pip has no work to do here, and what is not there cannot be abused
RUN pip uninstall --yes --root-user-action=ignore pip \
 && groupadd --gid 10001 gateway \
 && useradd --uid 10001 --gid gateway --home-dir /app --no-create-home --shell /usr/sbin/nologin gateway
COPY --from=build /opt/gateway /opt/gateway
ENV PATH=/opt/gateway/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GATEWAY_GATEWAY_HOST=0.0.0.0 \
    GATEWAY_GATEWAY_LOG_FORMAT=json
WORKDIR /app
# a volume that is mounted here on Fargate gets these permissions, and not root's
VOLUME ["/tmp"]
USER 10001:10001
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-m", "gateway.health"]
ENTRYPOINT ["gateway"]
CMD ["serve"]
