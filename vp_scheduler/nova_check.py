# SPDX-License-Identifier: Apache-2.0
"""`python -m vp_scheduler.nova_check`: whether nova-scheduler would start with filter and weigher.

For Nova's own Python environment, after an upgrade of Nova and before nova-scheduler starts: with a
filter that it cannot load it does not start, and no server is placed. Reads nova.conf, and loads by
Nova's own loaders; nothing is constructed, so that no broker is asked.
"""

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

import nova.conf.scheduler
from nova.scheduler import filters, weights
from oslo_config import cfg

FILTER, WEIGHER = "vp_scheduler.filters.VPIsolationFilter", "vp_scheduler.weighers."
TESTED = range(31, 35)
"""Releases of Nova."""
READY, REMARKS, NOT_READY = 0, 1, 2


def failures(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Why nova-scheduler would not start, or would not ask us."""
    group = conf.filter_scheduler
    try:
        found = filters.HostFilterHandler().get_matching_classes(group.available_filters)
    except Exception as exc:  # whatever an import does
        yield f"[filter_scheduler] available_filters: {exc}: nova-scheduler would not start"
        return
    names = {one.__name__ for one in found}
    if missing := [name for name in group.enabled_filters if name not in names]:
        yield (
            f"[filter_scheduler] enabled_filters: {', '.join(missing)} is in none of "
            "available_filters: nova-scheduler would not start"
        )
    if FILTER.rpartition(".")[2] not in group.enabled_filters:
        yield f"[filter_scheduler] enabled_filters: {FILTER} is missing: strict servers go anywhere"
    try:
        weights.HostWeightHandler().get_matching_classes(group.weight_classes)
    except Exception as exc:  # whatever an import does
        yield f"[filter_scheduler] weight_classes: {exc}: nova-scheduler would not start"


def remarks(conf: cfg.ConfigOpts, release: str) -> Iterator[str]:
    """What is worth a look, though it starts."""
    group = conf.filter_scheduler
    if int(release.partition(".")[0]) not in TESTED:
        yield f"nova {release}: tested with Nova {TESTED[0]} to {TESTED[-1]}"
    if not any(name.startswith(WEIGHER) for name in group.weight_classes):
        yield "[filter_scheduler] weight_classes: our weigher is missing: soft servers go anywhere"
    if not group.track_instance_changes:
        yield (
            "[filter_scheduler] track_instance_changes = false: servers that an agent has not seen "
            "yet are taken to be as wide as the new one"
        )


def main(argv: Sequence[str] | None = None) -> int:
    conf = cfg.ConfigOpts()
    nova.conf.scheduler.register_opts(conf)
    try:
        conf(argv, project="nova", prog="nova-scheduler")
    except cfg.Error as exc:
        print(f"nova_check: {exc}", file=sys.stderr)
        return NOT_READY
    release = metadata.version("nova")
    failed, noted = list(failures(conf)), list(remarks(conf, release))
    for text in (*failed, *noted):
        print(text)
    if not failed:
        print(f"ready: nova {release} loads the filters and weighers of nova.conf")
    return NOT_READY if failed else REMARKS if noted else READY


if __name__ == "__main__":
    sys.exit(main())
