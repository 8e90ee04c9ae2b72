# Makes the database on the first start, as the official image does it, and becomes the server.
set -eu
PATH="$(echo /usr/lib/postgresql/*/bin):$PATH"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 > /dev/null
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    printf 'CREATE DATABASE "%s";\n' "$POSTGRES_DB" | postgres --single -j postgres > /dev/null
fi
exec postgres -c listen_addresses='*'
