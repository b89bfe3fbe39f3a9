# SPDX-License-Identifier: Apache-2.0
# plugin.sh - DevStack calls it at each phase: `source plugin.sh MODE [PHASE]`.
#
# What is done is in lib/nova-vp; here is when. A node does what its enabled services need.

_XTRACE_NOVA_VP_PLUGIN=$(set +o | grep xtrace)
set +o xtrace

source "$VP_DIR/devstack/lib/nova-vp"

if is_service_enabled vp-api vp-scheduler vp-agent; then
    case "$1/${2:-}" in
        stack/pre-install)
            check_nova_vp_settings
            ;;
        stack/install)
            echo_summary "Installing nova-vp"
            install_nova_vp
            ;;
        stack/post-config)
            echo_summary "Configuring nova-vp"
            configure_nova_vp
            init_nova_vp
            create_nova_vp_accounts
            create_nova_vp_credentials
            configure_nova_for_nova_vp
            configure_nova_vp_host
            configure_nova_vp_dashboard
            ;;
        stack/extra)
            echo_summary "Starting nova-vp"
            start_nova_vp
            ;;
        stack/test-config)
            configure_tempest_for_nova_vp
            ;;
        unstack/*)
            stop_nova_vp
            ;;
        clean/*)
            cleanup_nova_vp
            ;;
    esac
fi

$_XTRACE_NOVA_VP_PLUGIN
