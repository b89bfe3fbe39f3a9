# SPDX-License-Identifier: Apache-2.0
"""A sender of a stream for the guest's `frames`: RTP packets over UDP, so many frames per second.

`python -m testbed.lab.stream ADDRESS [--fps N] [--packets N] [--seconds N] [--burst N]`. Only what
a player needs is true: number, marker bit and size; no content is.
"""

import argparse
import itertools
import socket
import struct
import time

PORT = 5004
PACKETS, LENGTH = 40, 1300
"""Of a frame: at 25 frames per second 10 Mbit/s."""
_VERSION, _MARKER, _KIND = 0x80, 0x80, 96
_CLOCK_HZ = 90_000
_SOURCE = 1


def packets_of(
    frame: int, packets: int = PACKETS, length: int = LENGTH, fps: float = 25.0
) -> list[bytes]:
    """Those of one frame, by its number; the last one has the marker bit."""
    moment = round(frame * _CLOCK_HZ / fps) & 0xFFFFFFFF
    found = []
    for number in range(packets):
        marker = _MARKER if number == packets - 1 else 0
        sequence = (frame * packets + number) & 0xFFFF
        head = struct.pack("!BBHII", _VERSION, marker | _KIND, sequence, moment, _SOURCE)
        found.append(head + bytes(length - len(head)))
    return found


def send(address: str, fps: float, packets: int, seconds: float, burst: int = 1) -> None:
    """So many frames each time, when the first of them is due, their packets one after another; a
    sender that is late catches up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect((address, PORT))
        began_s = time.monotonic()
        for frame in itertools.count():
            due_s = began_s + frame // burst * burst / fps
            if due_s - began_s >= seconds:
                return
            time.sleep(max(due_s - time.monotonic(), 0.0))
            for packet in packets_of(frame, packets, fps=fps):
                sender.send(packet)


def main() -> None:
    parser = argparse.ArgumentParser(prog="stream", description=__doc__)
    parser.add_argument("address", help="Address of the guest")
    parser.add_argument("--fps", type=float, default=25.0, help="Frames per second (25)")
    parser.add_argument("--packets", type=int, default=PACKETS, help=f"Of a frame ({PACKETS})")
    parser.add_argument("--seconds", type=float, default=60.0, help="How long (60)")
    parser.add_argument("--burst", type=int, default=1, help="Frames that are sent at once (1)")
    given = parser.parse_args()
    send(given.address, given.fps, given.packets, given.seconds, given.burst)


if __name__ == "__main__":
    main()
