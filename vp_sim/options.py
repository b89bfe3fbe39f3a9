# SPDX-License-Identifier: Apache-2.0
"""Options that several commands of `vp-sim` share, checked before anything runs."""

import argparse
import contextlib
import re

from nova_vp.cli.new_file import picture
from vp_sim.mixes import MIXES
from vp_sim.random_mix import PREFIX

RUNS = 40
"""Start orders, as many as the published figures are held against."""
MOST = 100_000


def add_mix(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(MIXES)
    parser.add_argument(
        "--mix", required=True, help=f"Mix: {known}, {PREFIX}SEED, or a YAML or JSON file"
    )


def add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plot", type=picture, metavar="FILE", help="Save a picture: .png, .svg or .pdf"
    )


def add_perturb(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--perturb",
        type=seed,
        metavar="SEED",
        help="Draw another queue form, and bandwidth, miss cost and cache sharing up to 30 %% off",
    )


def seed(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    raise argparse.ArgumentTypeError("give a whole number, 0 or more")


def count(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 1 <= int(text) <= MOST:
            return int(text)
    raise argparse.ArgumentTypeError(f"give a whole number from 1 to {MOST}")
