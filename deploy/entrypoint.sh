#!/bin/sh
# Runs `euphrates` in a container. A token that is mounted as a secret belongs to root, or may be read by
# its group, which Euphrates refuses: the copy belongs to this user alone.
set -eu

mounted=${EUPHRATES_TOKEN_MOUNT:-/token/token}
if [ -r "$mounted" ]; then
    umask 077
    cat "$mounted" > "${HOME:-/tmp}/cluster.token"
fi
exec euphrates "$@"
