# Stands in for the official image of PostgreSQL where none can be pulled: the same user, folders and variables.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update -qq \
    && mkdir -p /etc/postgresql-common \
    && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && install -d -o postgres -g postgres -m 0700 /var/lib/postgresql/data \
    && chmod 3777 /var/run/postgresql
COPY postgres.sh /usr/local/bin/postgres.sh
ENV PGDATA=/var/lib/postgresql/data
USER postgres
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["/bin/sh", "/usr/local/bin/postgres.sh"]
