# SPDX-License-Identifier: Apache-2.0
# What our plugin uses of DevStack, written anew for tests: `source stub.sh`, then phases.
#
# Files are real, below $ROOT. A command that is neither here nor in $TOOLS is an error, and so is
# what the real functions refuse or silently leave out. Each call is a line of $STUB/calls.

set -o errexit -o pipefail
shopt -s inherit_errexit

DEST=$ROOT/opt/stack
DATA_DIR=$DEST/data
TOP_DIR=$DEST/devstack
NOVA_DIR=$DEST/nova
HORIZON_DIR=$DEST/horizon
NOVA_CONF_DIR=$ROOT/etc/nova
NOVA_CONF=$NOVA_CONF_DIR/nova.conf
APACHE_CONF_DIR=$ROOT/etc/apache2/sites-available
TEMPEST_CONFIG=$DEST/tempest/etc/tempest.conf
STACK_USER=stack
LIBVIRT_GROUP=libvirt
VIRT_DRIVER=${VIRT_DRIVER:-libvirt}
LIBVIRT_TYPE=${LIBVIRT_TYPE:-qemu}
SERVICE_HOST=192.0.2.11
SERVICE_PROTOCOL=http
SERVICE_TIMEOUT=60
SERVICE_PASSWORD=secret
SERVICE_PROJECT_NAME=service
SERVICE_DOMAIN_NAME=Default
REGION_NAME=RegionOne
RABBIT_HOST=192.0.2.11
RABBIT_USERID=stackrabbit
RABBIT_PASSWORD=secret
ENABLE_DEBUG_LOG_LEVEL=True
SYSLOG=False
SSL_BUNDLE_FILE=$DATA_DIR/ca-bundle.pem
SYSTEMCTL="sudo systemctl"
KEYSTONE_SERVICE_URI=http://$SERVICE_HOST/identity

function note {
    printf '%s\n' "$*" >>"$STUB/calls"
}

function refuse {
    echo "refused: $*" >&2
    exit 1
}

function command_not_found_handle {
    refuse "DevStack and its machine have no $1"
}

# Rights
# ------

# What is not the user's needs sudo.
function may_write {
    local path
    for path in "$@"; do
        path=$(realpath -ms "$path")
        case "$path" in
            "$ROOT"/opt/stack/* | "$ROOT"/etc/nova/* | "$STUB"/* | /tmp/tmp.* | "$TMPDIR"/*) ;;
            *)
                if [[ -z "${AS_ROOT:-}" ]] && ! is_owned "$path"; then
                    refuse "the user stack may not write $path"
                fi
                ;;
        esac
    done
}

function is_owned {
    local folder
    while read -r folder; do
        [[ "$1/" != "$folder"/* ]] || return 0
    done <"$STUB/owned"
    return 1
}

function sudo {
    AS_ROOT=1 "$@"
}

function install {
    local mode="" owner="" folders="" words=()
    while [[ $# -gt 0 ]]; do
        case "$1" in
            -d) folders=1 ;;
            -D) ;;
            -m) mode=$2 && shift ;;
            -o) owner=$2 && shift ;;
            -*) refuse "install $1 is not known to this stub" ;;
            *) words+=("$1") ;;
        esac
        shift
    done
    if [[ -n "$folders" ]]; then
        may_write "${words[@]}"
        mkdir -p "${words[@]}"
        [[ "$owner" != "$STACK_USER" ]] || printf '%s\n' "${words[@]}" >>"$STUB/owned"
    else
        may_write "${words[-1]}"
        command install -D -m "${mode:-755}" "${words[@]}"
        [[ "$owner" != rabbitmq ]] || echo "${words[-1]}" >>"$STUB/of-rabbitmq"
    fi
}

function mkdir {
    may_write "${@: -1}"
    command mkdir "$@"
}

function cp {
    may_write "${@: -1}"
    command cp "$@"
}

function ln {
    may_write "${@: -1}"
    command ln "$@"
}

function rm {
    local path
    for path in "$@"; do
        [[ "$path" == -* ]] || may_write "$path"
    done
    command rm "$@"
}

function tee {
    may_write "${@: -1}"
    command tee "$@"
}

# Options in files
# ----------------

function ini {
    "$PYTHON" -I -S "$STUB_DIR/ini.py" "$@"
}

function iniset {
    local root=""
    if [[ "$1" == "-sudo" ]]; then
        root=1
        shift
    fi
    # The real one leaves an option without a section or a name out, and says nothing.
    [[ $# -eq 4 && -n "$2" && -n "$3" ]] || refuse "iniset $*: give file, section, option, value"
    [[ -d "$(dirname "$1")" ]] || refuse "iniset: there is no folder for $1"
    AS_ROOT=$root may_write "$1"
    ini set "$@"
}

function iniset_multiline {
    [[ $# -ge 4 ]] || refuse "iniset_multiline $*: give file, section, option, values"
    may_write "$1"
    # It splits at spaces.
    # shellcheck disable=SC2048
    ini set "$1" "$2" "$3" ${*:4}
}

function iniget {
    [[ $# -eq 3 ]] || refuse "iniget $*: give file, section, option"
    ini get "$@"
}

function setup_logging {
    iniset "$1" DEFAULT logging_exception_prefix "ERROR %(name)s"
}

# Services
# --------

function is_service_enabled {
    local service
    for service in "$@"; do
        [[ ",$ENABLED_SERVICES," != *",$service,"* ]] || return 0
    done
    return 1
}

function enable_service {
    local service
    for service in "$@"; do
        if [[ ",${DISABLED_SERVICES:-}," == *",$service,"* ]]; then
            continue
        fi
        is_service_enabled "$service" || ENABLED_SERVICES+=",$service"
    done
}

function run_process {
    local service=$1 command=$2
    if ! is_service_enabled "$service"; then
        return
    fi
    [[ "$command" == /* ]] || refuse "run_process: '$command' has no absolute path"
    [[ "$command" != *sudo* ]] || refuse "run_process: sudo does not work under systemd"
    note run_process "$@"
    if [[ "$command" == *uwsgi* ]]; then
        command mkdir -p "$ROOT/run/uwsgi"
        touch "$ROOT/run/uwsgi/$service.socket"
    fi
    echo "$service" >>"$STUB/running"
}

function stop_process {
    if is_service_enabled "$1"; then
        note stop_process "$1"
        command sed -i "/^$1$/d" "$STUB/running"
    fi
}

function restart_service {
    [[ $# -eq 1 ]] || refuse "restart_service takes one service"
    note restart_service "$1"
    [[ "$1" != libvirtd ]] || remember_emulators
}

# libvirt keeps what it asked each emulator, in files whose names do not tell which.
function remember_emulators {
    local cache=$ROOT/var/cache/libvirt/qemu/capabilities
    command mkdir -p "$cache"
    echo "<emulator>/usr/bin/qemu-system-x86_64</emulator>" >"$cache/1.xml"
    if [[ -x "$VP_EMULATOR_PATH/qemu-system-x86_64" ]]; then
        echo "<emulator>$VP_EMULATOR_PATH/qemu-system-x86_64</emulator>" >"$cache/2.xml"
    fi
}

function wait_for_service {
    [[ "$1" =~ ^[0-9]+$ && "$2" =~ ^https?:// ]] || refuse "wait_for_service $*: SECONDS URL"
}

function systemctl {
    [[ -n "${AS_ROOT:-}" ]] || refuse "systemctl needs sudo"
    note systemctl "$@"
}

function sysctl {
    [[ -n "${AS_ROOT:-}" ]] || refuse "sysctl needs sudo"
    note sysctl "$@"
    echo "${PARANOID:-3}"
}

# Packages
# --------

function get_python_exec_prefix {
    echo "$STUB/bin"
}

function setup_develop {
    local extra
    [[ -f "$1/setup.cfg" ]] || refuse "setup_develop: $1 is no project"
    for extra in ${2//,/ }; do
        grep -q "^$extra =$" "$1/setup.cfg" || refuse "setup_develop: no extra $extra in setup.cfg"
    done
    note setup_develop "$@"
}

function install_package {
    [[ $# -gt 0 ]] || refuse "install_package takes packages"
    note install_package "$@"
}

function make {
    note make "$@"
    [[ "$*" != *vpmu.so* ]] || touch "$2/vpmu.so"
}

function qemu-system-x86_64 {
    note qemu-system-x86_64 "$@"
    [[ -z "${QEMU_REFUSES:-}" ]]
}

# Database, message bus
# ---------------------

function recreate_database {
    is_service_enabled mysql || refuse "this node has no database"
    command rm -f "$STUB/$1.sqlite"
}

function database_connection_url {
    echo "sqlite:///$STUB/$1.sqlite"
}

function rpc_backend_add_vhost {
    is_service_enabled rabbit || refuse "this node has no RabbitMQ"
    grep -qx "$1" "$STUB/vhosts" 2>/dev/null || echo "$1" >>"$STUB/vhosts"
}

function get_transport_url {
    echo "rabbit://$RABBIT_USERID:$RABBIT_PASSWORD@$RABBIT_HOST:5672/$1"
}

# What names a virtual host that is not there is refused by the real one, too.
function rabbitmqctl {
    [[ -n "${AS_ROOT:-}" ]] || refuse "rabbitmqctl needs sudo"
    is_service_enabled rabbit || refuse "this node has no RabbitMQ"
    [[ "$1" == "import_definitions" ]] || refuse "rabbitmqctl $* is not known to this stub"
    [[ $# -eq 2 ]] || refuse "rabbitmqctl of RabbitMQ 4.0.5 hangs on its standard input"
    grep -qxF "$2" "$STUB/of-rabbitmq" || refuse "the user rabbitmq may not read $2"
    "$PYTHON" -I -c '
import json, sys
known = open(sys.argv[1]).read().split()
for rows in json.load(open(sys.argv[2])).values():
    for row in rows if isinstance(rows, list) else ():
        if row.get("vhost", known[0]) not in known:
            sys.exit("no virtual host " + row["vhost"])
' "$STUB/vhosts" "$2"
    note rabbitmqctl "$@"
}

# Keystone, Apache
# ----------------

function create_service_user {
    [[ $# -ge 1 && -n "$SERVICE_PASSWORD" ]] || refuse "create_service_user NAME [ROLE]"
    note create_service_user "$@"
}

function get_or_create_service {
    [[ $# -eq 3 && -n "$3" ]] || refuse "get_or_create_service NAME TYPE DESCRIPTION"
    note get_or_create_service "$@"
    echo "$2" >>"$STUB/services"
}

function get_or_create_endpoint {
    [[ $# -eq 5 ]] || refuse "get_or_create_endpoint SERVICE REGION PUBLIC ADMIN INTERNAL"
    grep -qx "$1" "$STUB/services" || refuse "get_or_create_endpoint: no service $1"
    note get_or_create_endpoint "$@"
}

function get_or_create_role {
    note get_or_create_role "$@"
    echo "$1" >>"$STUB/roles"
}

function openstack {
    [[ "$1" == "--os-cloud" && "$2" == devstack-* ]] || refuse "openstack $*: say as whom"
    if [[ "$*" == *"role add"* ]]; then
        grep -qx "$5" "$STUB/roles" || refuse "openstack: no role $5"
    fi
    note openstack "$@"
    [[ "$*" != *"image create"* ]] || echo 11111111-1111-4111-8111-111111111111
}

function configure_keystone_authtoken_middleware {
    iniset "$1" keystone_authtoken auth_type password
    iniset "$1" keystone_authtoken auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$1" keystone_authtoken username "$2"
    iniset "$1" keystone_authtoken password "$SERVICE_PASSWORD"
}

function configure_keystoneauth {
    iniset "$1" "$3" auth_type password
    iniset "$1" "$3" auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$1" "$3" username "$2"
    iniset "$1" "$3" password "$SERVICE_PASSWORD"
    iniset "$1" "$3" user_domain_name "$SERVICE_DOMAIN_NAME"
    iniset "$1" "$3" project_name "$SERVICE_PROJECT_NAME"
    iniset "$1" "$3" project_domain_name "$SERVICE_DOMAIN_NAME"
}

function apache_site_config_for {
    echo "$APACHE_CONF_DIR/$1.conf"
}

function write_uwsgi_config {
    local site
    [[ "$2" =~ ^[a-zA-Z0-9_.]+:[a-zA-Z0-9_]+$ ]] || refuse "write_uwsgi_config: $2 is no module path"
    [[ "$3" == /* && -n "$5" ]] || refuse "write_uwsgi_config CONF MODULE /URL HTTP NAME"
    iniset "$1" uwsgi module "$2"
    site=$(apache_site_config_for "$5")
    command mkdir -p "$APACHE_CONF_DIR"
    echo "ProxyPass \"$3\"" >"$site"
    note write_uwsgi_config "$@"
}

function remove_uwsgi_config {
    [[ -f "$(apache_site_config_for "$(basename "$2")")" ]] || refuse "there is no site $2"
    rm -rf "$1"
    command mkdir -p "$ROOT/var/lib/apache2/site/disabled_by_admin"
    touch "$ROOT/var/lib/apache2/site/disabled_by_admin/$(basename "$2")"
    note remove_uwsgi_config "$@"
}

# Words
# -----

function define_plugin {
    note define_plugin "$1"
}

function echo_summary {
    note echo_summary "$@"
}

function warn {
    [[ "$1" =~ ^[0-9]+$ ]] || refuse "warn LINE TEXT"
    note warn "${*:2}"
}

function die {
    [[ "$1" =~ ^[0-9]+$ ]] || refuse "die LINE TEXT"
    echo "died: ${*:2}" >&2
    exit 1
}

function trueorfalse {
    case "${!2:-}" in
        1 | [yY]es | YES | [tT]rue | TRUE) echo True ;;
        0 | [nN]o | NO | [fF]alse | FALSE) echo False ;;
        *) echo "$1" ;;
    esac
}
