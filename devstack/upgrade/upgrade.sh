#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Grenade: install this release on the configuration and the database of the former one.

cleanup() {
    set +o errexit
    echo "ERROR: Abort $0"
    trap 2
    kill -2 $$
}
trap cleanup SIGHUP SIGINT SIGTERM

source "$GRENADE_DIR/grenaderc"
source "$GRENADE_DIR/functions"

set -o errexit

source "$TARGET_DEVSTACK_DIR/stackrc"
source "$TARGET_DEVSTACK_DIR/lib/tls"
source "$TARGET_DEVSTACK_DIR/lib/apache"
source "$TARGET_DEVSTACK_DIR/lib/keystone"
source "$TARGET_DEVSTACK_DIR/lib/nova"

NOVA_VP_DEVSTACK_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$NOVA_VP_DEVSTACK_DIR/settings"
source "$NOVA_VP_DEVSTACK_DIR/lib/nova-vp"

set -o xtrace

if [[ ! -d "$SAVE_DIR/etc.nova-vp" ]]; then
    cp -pr "$VP_CONF_DIR" "$SAVE_DIR/etc.nova-vp"
fi
install_nova_vp
# 1 is: ready, with remarks.
status=0
"$VP_BIN_DIR/vp-status" --config-file "$VP_CONF" upgrade check || status=$?
if [[ $status -gt 1 ]]; then
    die $LINENO "nova-vp is not ready for this release: the table above says why"
fi
"$VP_BIN_DIR/vp-manage" --config-file "$VP_CONF" db sync
start_nova_vp
ensure_services_started vp-agent vp-api vp-scheduler
