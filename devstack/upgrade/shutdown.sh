#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Grenade: stop the former release. Servers run on, with the values that Nova gave them.

set -o errexit

source "$GRENADE_DIR/grenaderc"
source "$GRENADE_DIR/functions"
source "$BASE_DEVSTACK_DIR/functions"
source "$BASE_DEVSTACK_DIR/stackrc"
source "$BASE_DEVSTACK_DIR/lib/tls"
source "$BASE_DEVSTACK_DIR/lib/apache"
source "$BASE_DEVSTACK_DIR/lib/nova"

NOVA_VP_DEVSTACK_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$NOVA_VP_DEVSTACK_DIR/settings"
source "$NOVA_VP_DEVSTACK_DIR/lib/nova-vp"

set -o xtrace

stop_nova_vp
ensure_services_stopped vp-agent vp-api vp-scheduler
