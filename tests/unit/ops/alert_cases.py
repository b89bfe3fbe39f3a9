# SPDX-License-Identifier: Apache-2.0
"""For each alert: series for which it fires, and similar ones for which it does not.

Values are written as promtool reads them, one a minute: `0+2x10` is 0, 2, 4 ..., `1x10` is 1, 1 ...
"""

from typing import NamedTuple

Series = dict[str, str]


class AlertCase(NamedTuple):
    alert: str
    for_m: int
    """Its `for`."""
    fires: Series
    labels: tuple[str, ...]
    """Of what fires, but for those that every alert has."""
    quiet: Series
    begin_m: int = 0
    """When its expression is true for the first time."""


def histogram(name: str, labels: str, counts: dict[str, int]) -> Series:
    """Observations a minute up to each bound."""
    return {
        f'{name}_bucket{{{labels}, le="{bound}"}}': f"0+{count}x60"
        for bound, count in counts.items()
    }


ACTIONS = 'nova_vp_actions_total{fqdn="%s", reason="cap", result="%s"}'
SLOW, LATE = "nova_vp_scheduler_store_lag_seconds", "nova_vp_scheduler_report_age_seconds"
TICK, ASKED = "nova_vp_agent_tick_seconds", "nova_vp_api_request_seconds"

CASES = [
    AlertCase(
        "NovaVpAgentDown",
        2,
        {'up{job="nova-vp-agent", instance="a"}': "0x60"},
        ('instance="a", job="nova-vp-agent"',),
        {'up{job="nova-vp-agent", instance="b"}': "1x60", 'up{job="x", instance="c"}': "0x60"},
    ),
    AlertCase(
        "NovaVpHostNotLookedAfter",
        1,
        {'nova_vp_agent_last_tick_timestamp_seconds{fqdn="a"}': "0x60"},
        ('fqdn="a"',),
        {'nova_vp_agent_last_tick_timestamp_seconds{fqdn="b"}': "-60+60x60"},
        begin_m=2,
    ),
    AlertCase(
        "NovaVpLibvirtAway",
        5,
        {'nova_vp_agent_ticks_total{fqdn="a", result="libvirt-away"}': "0+1x60"},
        ('fqdn="a", result="libvirt-away"',),
        {
            'nova_vp_agent_ticks_total{fqdn="b", result="libvirt-away"}': "7x60",
            'nova_vp_agent_ticks_total{fqdn="b", result="done"}': "0+60x60",
        },
        begin_m=1,
    ),
    AlertCase(
        "NovaVpSlowTicks",
        10,
        histogram(TICK, 'fqdn="a"', {"0.5": 98, "1.0": 100, "+Inf": 100}),
        ('fqdn="a"',),
        histogram(TICK, 'fqdn="b"', {"0.5": 99, "1.0": 100, "+Inf": 100}),
        begin_m=1,
    ),
    AlertCase(
        "NovaVpHostNotHeard",
        5,
        {
            'nova_vp_agent_report_age_seconds{fqdn="a"}': "181x60",
            'nova_vp_agent_bus_listening{fqdn="b"}': "0x60",
        },
        ('fqdn="a"', 'fqdn="b"'),
        {
            'nova_vp_agent_report_age_seconds{fqdn="c"}': "180x60",
            'nova_vp_agent_bus_listening{fqdn="c"}': "1x60",
        },
    ),
    AlertCase(
        "NovaVpNoCounters",
        15,
        {'nova_vp_agent_info{fqdn="a", counters="none"}': "1x60"},
        ('fqdn="a", counters="none"',),
        {'nova_vp_agent_info{fqdn="b", counters="perf"}': "1x60"},
    ),
    AlertCase(
        "NovaVpPoorCounters",
        15,
        {'nova_vp_servers_incomplete{fqdn="a", reason="multiplexed"}': "1x60"},
        ('fqdn="a"',),
        {
            'nova_vp_servers_incomplete{fqdn="b", reason="multiplexed"}': "0x60",
            'nova_vp_servers_incomplete{fqdn="b", reason="warming-up"}': "1x60",
        },
    ),
    AlertCase(
        "NovaVpServersHurt",
        10,
        {'nova_vp_servers_hurt{fqdn="a", kind="cache"}': "1x60"},
        ('fqdn="a"',),
        {'nova_vp_servers_hurt{fqdn="b", kind="cache"}': "0x60"},
    ),
    AlertCase(
        "NovaVpNothingHelps",
        15,
        {'nova_vp_escalations_standing{fqdn="a"}': "1x60"},
        ('fqdn="a"',),
        {'nova_vp_escalations_standing{fqdn="b"}': "0x60"},
    ),
    AlertCase(
        "NovaVpAggressorUnmanaged",
        10,
        {'nova_vp_aggressors_unmanaged{fqdn="a", reason="realtime"}': "1x60"},
        ('fqdn="a", reason="realtime"',),
        {'nova_vp_aggressors_unmanaged{fqdn="b", reason="realtime"}': "0x60"},
    ),
    AlertCase(
        "NovaVpVictimOverBudget",
        10,
        {'nova_vp_victims_over_budget{fqdn="a", reason="victim-budget-spent"}': "1x60"},
        ('fqdn="a"',),
        {'nova_vp_victims_over_budget{fqdn="b", reason="victim-budget-spent"}': "0x60"},
    ),
    AlertCase(
        "NovaVpActionsFail",
        0,
        {ACTIONS % ("a", "failed"): "0x10 3x60"},
        ('fqdn="a", reason="cap"',),
        {ACTIONS % ("b", "failed"): "0x10 1x60", ACTIONS % ("b", "applied"): "0+1x60"},
        begin_m=11,
    ),
    AlertCase(
        "NovaVpActionsDoNotHelp",
        0,
        {
            ACTIONS % ("a", "ineffective"): "0x10 6x60",
            ACTIONS % ("a", "mended"): "0x10 2x60",
            ACTIONS % ("never-mended", "ineffective"): "0x10 4x60",
        },
        ('fqdn="a"', 'fqdn="never-mended"'),
        {
            ACTIONS % ("b", "ineffective"): "0x10 5x60",
            ACTIONS % ("b", "mended"): "0x10 3x60",
            ACTIONS % ("c", "ineffective"): "0x10 2x60",
        },
        begin_m=11,
    ),
    AlertCase(
        "NovaVpMemoryOverloaded",
        10,
        {'nova_vp_node_hot{fqdn="a", node="1"}': "1x60"},
        ('fqdn="a", node="1"',),
        {'nova_vp_node_hot{fqdn="b", node="1"}': "0x60"},
    ),
    AlertCase("NovaVpNoScheduler", 5, {}, ("",), {"nova_vp_scheduler_info": "1x60"}),
    AlertCase(
        "NovaVpDatabaseAway",
        2,
        {'nova_vp_scheduler_database_up{instance="a"}': "0x60"},
        ('instance="a"',),
        {'nova_vp_scheduler_database_up{instance="b"}': "1x60"},
    ),
    AlertCase(
        "NovaVpBusAway",
        2,
        {
            'nova_vp_scheduler_bus_up{instance="a"}': "0x60",
            'nova_vp_scheduler_bus_listening{instance="b", topic="x"}': "0x60",
        },
        ('instance="a"', 'instance="b", topic="x"'),
        {
            'nova_vp_scheduler_bus_up{instance="c"}': "1x60",
            'nova_vp_scheduler_bus_listening{instance="c", topic="x"}': "1x60",
        },
    ),
    AlertCase(
        "NovaVpHostsSilent",
        10,
        {f'nova_vp_hosts{{heard="no", mode="advise", instance="{one}"}}': "2x60" for one in "ab"},
        ('mode="advise"',),
        {
            'nova_vp_hosts{heard="no", mode="advise"}': "0x60",
            'nova_vp_hosts{heard="yes", mode="advise"}': "2x60",
        },
    ),
    AlertCase(
        "NovaVpStoringLags",
        10,
        histogram(SLOW, 'instance="a"', {"5.0": 98, "10.0": 100, "+Inf": 100}),
        ('instance="a"',),
        histogram(SLOW, 'instance="b"', {"5.0": 99, "10.0": 100, "+Inf": 100}),
        begin_m=1,
    ),
    AlertCase(
        "NovaVpReportsLate",
        10,
        histogram(LATE, 'instance="a"', {"10.0": 49, "30.0": 100, "+Inf": 100}),
        ('instance="a"',),
        histogram(LATE, 'instance="b"', {"10.0": 51, "30.0": 100, "+Inf": 100}),
        begin_m=1,
    ),
    AlertCase(
        "NovaVpReportsLost",
        0,
        {'nova_vp_scheduler_reports_dropped_total{instance="a"}': "0x10 1x60"},
        ('instance="a"',),
        {'nova_vp_scheduler_reports_dropped_total{instance="b"}': "5x60"},
        begin_m=11,
    ),
    AlertCase(
        "NovaVpReportsRefused",
        0,
        {'nova_vp_scheduler_reports_refused_total{instance="a", reason="malformed"}': "0x10 12x60"},
        ('instance="a", reason="malformed"',),
        {'nova_vp_scheduler_reports_refused_total{instance="b", reason="malformed"}': "0x10 9x60"},
        begin_m=11,
    ),
    AlertCase(
        "NovaVpMigrationsFail",
        0,
        {'nova_vp_escalations_settled_last_day{status="timed-out"}': "0x10 4x60"},
        ('status="timed-out"',),
        {
            'nova_vp_escalations_settled_last_day{status="failed"}': "3x60",
            'nova_vp_escalations_settled_last_day{status="done"}': "9x60",
        },
        begin_m=11,
    ),
    AlertCase(
        "NovaVpEscalationsWaitForYou",
        30,
        {'nova_vp_escalations{status="proposed"}': "1x60"},
        ("",),
        {
            'nova_vp_escalations{status="proposed"}': "0x60",
            'nova_vp_escalations{status="migrating"}': "1x60",
        },
    ),
    AlertCase(
        "NovaVpApiDown",
        2,
        {'up{job="nova-vp-api", instance="a"}': "0x60"},
        ('instance="a", job="nova-vp-api"',),
        {'up{job="nova-vp-api", instance="b"}': "1x60", 'up{job="x", instance="c"}': "0x60"},
    ),
    AlertCase(
        "NovaVpNoApi",
        2,
        {'up{job="nova-vp-api", instance="a"}': "0x60", 'up{job="x", instance="c"}': "1x60"},
        ("",),
        {'up{job="nova-vp-api", instance="b"}': "1x60"},
    ),
    AlertCase(
        "NovaVpApiFails",
        0,
        {'nova_vp_api_requests_total{route="/v1/vps", status="503"}': "0x10 6x60"},
        ('route="/v1/vps"',),
        {
            'nova_vp_api_requests_total{route="/v1/hosts", status="500"}': "0x10 4x60",
            'nova_vp_api_requests_total{route="/v1/vps", status="404"}': "0+9x60",
        },
        begin_m=11,
    ),
    AlertCase(
        "NovaVpApiSlow",
        10,
        histogram(ASKED, 'route="/v1/vps"', {"2.5": 94, "5.0": 100, "+Inf": 100}),
        ('route="/v1/vps"',),
        histogram(ASKED, 'route="/v1/hosts"', {"1.0": 90, "2.5": 99, "+Inf": 100}),
        begin_m=1,
    ),
]
