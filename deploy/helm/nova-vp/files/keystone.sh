# untested
# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Make the user, its roles, the service and its endpoints, and give the user the password that it shall have.
set -eu
openstack user create --or-show --domain default --password "$VP_PASSWORD" nova-vp >/dev/null
openstack user set --domain default --password "$VP_PASSWORD" nova-vp
openstack role add --project service --project-domain default --user nova-vp --user-domain default service
openstack role create --or-show vp_escalation >/dev/null
openstack role add --domain default --user nova-vp --user-domain default --inherited vp_escalation
if ! openstack service show performance-isolation >/dev/null 2>&1; then
    openstack service create --name nova-vp --description "Performance isolation" performance-isolation
fi
for interface in public internal; do
    case $interface in
        public) url=$VP_PUBLIC_URL ;;
        *) url=$VP_INTERNAL_URL ;;
    esac
    endpoint=$(openstack endpoint list --service performance-isolation --interface "$interface" \
        --region "$VP_REGION" -f value -c ID)
    if [ -n "$endpoint" ]; then
        openstack endpoint set --url "$url" "$endpoint"
    else
        openstack endpoint create --region "$VP_REGION" performance-isolation "$interface" "$url"
    fi
done
