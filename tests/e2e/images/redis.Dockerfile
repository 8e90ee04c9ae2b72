# Stands in for the official image of Redis where none can be pulled: the same user, folder and program.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o redis -g redis /data
USER redis
WORKDIR /data
VOLUME /data
CMD ["redis-server"]
