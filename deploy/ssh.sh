#!/bin/sh
# Starts a worker on each machine by ssh, runs a flow on them, and ends:
#
#     deploy/ssh.sh flow.py node1 node2 node3
#
# Euphrates and the token are at the same paths everywhere; EUPHRATES_LISTEN is an address of this
# machine that the others reach.
set -eu

flow=${1:?a flow, as a Python file or a document}
shift
[ "$#" -gt 0 ] || { echo "name the machines behind the flow" >&2; exit 2; }
token=${EUPHRATES_TOKEN_FILE:-$HOME/.euphrates/cluster.token}
address=${EUPHRATES_LISTEN:-$(hostname):4400}

for machine in "$@"; do
    # The address and the path are those of this machine: they are written into the command here.
    # shellcheck disable=SC2029
    ssh -o BatchMode=yes "$machine" \
        "exec euphrates worker --join '$address' --token-file '$token' --name '$machine'" &
done
euphrates run "$flow" --cluster "join:$address" --workers "$#" --token-file "$token"
wait
