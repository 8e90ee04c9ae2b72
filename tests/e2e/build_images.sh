#!/usr/bin/env bash
# Builds the images of docker-compose.yml, and stand-ins for Redis and PostgreSQL, also where no image can be pulled:
# the base is made by debootstrap then. ASSAY_BASE names another base, for example debian:bookworm-slim.
#
# As root it also installs and starts what is missing (Debian, Ubuntu); otherwise a running Docker is needed.
set -euo pipefail
cd "$(dirname "$0")/../.."
export DEBIAN_FRONTEND=noninteractive DOCKER_BUILDKIT=0 # the classic builder: it needs no plugin

say() { echo "build_images: $*"; }

installed() { command -v "$1" >/dev/null; }

install_missing() {
    local packages=()
    installed dockerd || docker info >/dev/null 2>&1 || packages+=(docker.io)
    docker compose version >/dev/null 2>&1 || installed docker-compose || packages+=(docker-compose)
    [ -n "${ASSAY_BASE:-}" ] || installed debootstrap || packages+=(debootstrap)
    [ "${#packages[@]}" -eq 0 ] && return
    [ "$(id -u)" -eq 0 ] || { say "install these first: ${packages[*]}" >&2; exit 1; }
    say "installing ${packages[*]}"
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null
}

start_docker() {
    docker info >/dev/null 2>&1 && return
    [ "$(id -u)" -eq 0 ] || { say "the Docker daemon does not answer" >&2; exit 1; }
    # The plain start first; then for kernels without overlay file systems, and without packet filters.
    for flags in "" "--storage-driver=vfs" "--storage-driver=vfs --iptables=false --ip6tables=false"; do
        say "starting dockerd $flags"
        # shellcheck disable=SC2086
        setsid dockerd $flags >/tmp/assay-dockerd.log 2>&1 </dev/null &
        local daemon=$!
        for _ in $(seq 60); do
            docker info >/dev/null 2>&1 && return
            kill -0 "$daemon" 2>/dev/null || break
            sleep 0.5
        done
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    done
    tail -n 20 /tmp/assay-dockerd.log >&2
    say "dockerd could not be started" >&2
    exit 1
}

make_base() {
    base="${ASSAY_BASE:-assay-base:bookworm}"
    [ -n "${ASSAY_BASE:-}" ] && return
    docker image inspect "$base" >/dev/null 2>&1 && return
    [ "$(id -u)" -eq 0 ] || { say "debootstrap needs root; or set ASSAY_BASE" >&2; exit 1; }
    say "making $base with debootstrap"
    local root
    root="$(mktemp -d)"
    # What Dockerfile.evaluator would install comes along, which is quicker than to fetch it afterwards.
    debootstrap --variant=minbase --include=ca-certificates,g++,python3,python3-venv bookworm "$root" \
        >/tmp/assay-debootstrap.log 2>&1 || { tail -n 20 /tmp/assay-debootstrap.log >&2; exit 1; }
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    # Whom this machine trusts, the builds that fetch over its network have to trust too.
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    tar -C "$root" -c . | docker import - "$base" >/dev/null
    rm -rf --one-file-system "$root"
}

build() {
    local name="$1"
    shift
    local start=$SECONDS
    docker build --network host --build-arg "BASE=$base" -t "$name" "$@" >"/tmp/assay-build-$name.log" 2>&1 \
        || { tail -n 30 "/tmp/assay-build-$name.log" >&2; say "$name could not be built" >&2; exit 1; }
    say "$name built in $((SECONDS - start)) s"
}

install_missing
start_docker
make_base
build assay-test-redis -f tests/e2e/images/redis.Dockerfile tests/e2e/images &
redis=$!
build assay-test-postgres -f tests/e2e/images/postgres.Dockerfile tests/e2e/images &
postgres=$!
build assay-sandbox -f Dockerfile.evaluator --target sandbox .
build assay-service -f Dockerfile.evaluator --target service .
# Without torch and verl, which are gigabytes: what is tested is how it reaches the evaluator.
build assay-trainer -f Dockerfile.trainer --build-arg EXTRAS= .
wait "$redis"
wait "$postgres"
say "done"
