# SPDX-License-Identifier: Apache-2.0
"""`vp-sim`: compare policies on a mix, score a placement, watch one run, replay a recording, list
the model's figures.

Results go to stdout and nothing else does: progress and errors are on stderr.
"""

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from nova_vp.cli.new_file import new_file
from nova_vp.cli.whole_file import whole_file
from vp_sim import evaluate, replay
from vp_sim.app_profiles import ROWS
from vp_sim.compare import compare
from vp_sim.machine import WESTMERE
from vp_sim.mixes import Mix
from vp_sim.mixfile import BadMix, find_mix
from vp_sim.options import RUNS, add_mix, add_perturb, add_plot, count, seed
from vp_sim.output import (
    applications,
    as_json,
    provenance,
    show_comparison,
    show_perturbation,
    show_timeline,
)
from vp_sim.overlay import command as overlay_command
from vp_sim.placementfile import BadPlacement, as_text
from vp_sim.policies import BASELINE, UnknownPolicy, find
from vp_sim.run import world_of
from vp_sim.timeline import Timeline, record

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:
        return _ended("standard output is closed; redirect it to a file", 1)
    # Whoever ends it, by Ctrl-C or by kill, no worker and no unfinished file is left behind.
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _told(argv)
    finally:
        signal.signal(signal.SIGTERM, handler)


def _told(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except (BadMix, BadPlacement, UnknownPolicy) as exc:
        return _ended(str(exc), 2)
    except BrokenProcessPool:
        return _ended(
            "a worker process was killed; check that there is enough memory, then run again", 1
        )
    except KeyboardInterrupt:
        return _ended("interrupted, no result", INTERRUPTED)
    except OSError as exc:
        if exc.filename is None:
            # Else Python tries again at its end, and fails with a traceback.
            with contextlib.suppress(OSError):
                sys.stdout.close()
        return _ended(f"{exc.filename or 'standard output'}: {exc.strerror}", 1)


def _ended(why: str, code: int) -> int:
    print(f"vp-sim: {why}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("vp-sim", description="Simulate policies on a modelled host.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_compare(commands)
    _add_run(commands)
    evaluated = commands.add_parser(
        "evaluate", help="Score a placement of a mix: CPUs, memory by node and CPU caps"
    )
    evaluate.add_arguments(evaluated)
    evaluated.set_defaults(run=evaluate.run)
    replayed = commands.add_parser(
        "replay", help="Replay a recording of a real host and compare the decisions"
    )
    replay.add_arguments(replayed)
    replayed.set_defaults(run=replay.run)
    overlay = commands.add_parser(
        "overlay", help="Run the published experiments of overlays and compare their figures"
    )
    overlay_command.add_arguments(overlay)
    overlay.set_defaults(run=overlay_command.run)
    apps = commands.add_parser("apps", help="List the parameters of the model and their sources")
    apps.set_defaults(run=_apps)
    return parser


def _add_compare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compare", help="Compare policies on a mix, over many start orders"
    )
    add_mix(parser)
    add_plot(parser)
    add_perturb(parser)
    parser.add_argument(
        "--policies",
        default="baseline,llc,vp",
        help="Policies, separated by commas (%(default)s); baseline is always run, and the others "
        "are compared with it",
    )
    parser.add_argument(
        "--runs", type=count, default=RUNS, help="Number of start orders (%(default)s)"
    )
    parser.add_argument(
        "--draws",
        type=count,
        default=0,
        help="Repeat this often with the estimated parameters drawn from their ranges",
    )
    parser.add_argument("--json", action="store_true", help="Print JSON instead of tables")
    parser.set_defaults(run=_compare)


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("run", help="Run a mix once and list all changes")
    add_mix(parser)
    add_plot(parser)
    add_perturb(parser)
    parser.add_argument("--policy", default="vp", help="Policy (%(default)s)")
    parser.add_argument(
        "--seed", type=seed, default=0, help="Seed of the start order (%(default)s)"
    )
    parser.add_argument(
        "--save-placement",
        type=new_file,
        metavar="FILE",
        help="Save where every VM is at the end, for `evaluate`",
    )
    parser.set_defaults(run=_run)


def _compare(arguments: argparse.Namespace) -> int:
    mix = find_mix(arguments.mix)
    policies = tuple(name.strip() for name in arguments.policies.split(",") if name.strip())
    find(policies)
    total = len({BASELINE, *policies}) * arguments.runs * (1 + arguments.draws)
    watched = Console(stderr=True)
    with Progress(console=watched, transient=True, disable=not watched.is_terminal) as progress:
        task = progress.add_task(escape(mix.name), total=total)
        comparison = compare(
            mix,
            policies,
            arguments.runs,
            arguments.draws,
            lambda done: progress.advance(task, done),
            arguments.perturb,
        )
    try:
        if arguments.json:
            print(json.dumps(as_json(mix.name, comparison), indent=2))
        else:
            show_comparison(_screen(), mix.name, comparison)
    finally:  # Also where nobody reads the results any more.
        if arguments.plot:
            from vp_sim.plot import plot_comparison

            plot_comparison(arguments.plot, mix.name, comparison.nominal)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    mix: Mix = find_mix(arguments.mix)
    create = find((arguments.policy,))[arguments.policy]
    world = world_of(mix, perturb_seed=arguments.perturb)
    timeline = record(world, create, arguments.seed)
    title = f"{mix.name} under {arguments.policy}, start order {arguments.seed}"
    try:
        show_timeline(_screen(), title, timeline)
        show_perturbation(_screen(), world.perturbation)
    finally:  # Also where nobody reads the results any more.
        _save(arguments, title, timeline)
    return 0


def _save(arguments: argparse.Namespace, title: str, timeline: Timeline) -> None:
    if arguments.save_placement:
        with whole_file(arguments.save_placement) as unfinished:
            unfinished.write_text(as_text(timeline.run.final))
    if arguments.plot:
        from vp_sim.plot import plot_timeline

        plot_timeline(arguments.plot, title, timeline)


def _apps(arguments: argparse.Namespace) -> int:
    rows = {name: row.figures() for name, row in ROWS.items()}
    _screen().print(applications(ROWS.values()))
    _screen().print(provenance({**rows, "machine": WESTMERE.figures()}))
    return 0


def _screen() -> Console:
    """Names are the operator's: brackets in them are no markup."""
    return Console(markup=False)
