#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Grenade: what is made with the former release and must be there with this one.

set -o errexit

source "$GRENADE_DIR/grenaderc"
source "$GRENADE_DIR/functions"
source "$TOP_DIR/openrc" admin admin

set -o xtrace

OVERLAY=nova-vp-grenade

function create {
    openstack vp overlay create "$OVERLAY" --target 250 --target-unit requests/s
}

function verify {
    openstack vp overlay show "$OVERLAY"
    openstack vp host list
}

function verify_noapi {
    # Servers of Nova are what is left without an API, and Nova's own resources look at these.
    :
}

function destroy {
    openstack vp overlay delete "$OVERLAY"
}

case $1 in
    create | verify | verify_noapi | destroy) "$1" ;;
    force_destroy)
        set +o errexit
        destroy
        ;;
esac
