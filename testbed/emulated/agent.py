# SPDX-License-Identifier: Apache-2.0
"""The far end of `run`, inside the machine: runs one command at a time, streams it back.

A request is one line of JSON; answers are frames of a letter (r ready, o stdout, e stderr, x end),
four bytes of length and the bytes. When the near end hangs up, the command is killed. It is killed,
too, when the next near end sends a request: that one may connect before the hang-up is seen.
Standard library only, and little of it: this is started by an emulated CPU.
"""

import contextlib
import json
import os
import select
import signal
import struct
import subprocess
import time

LAYERS = "/run/checkout"
BUSY_DEADLINE_S = 20
NINEP = "trans=virtio,version=9p2000.L,msize=1048576"


def find_port():
    """devtmpfs has no names of ports (udev would make them)."""
    root = "/sys/class/virtio-ports"
    for name in os.listdir(root):
        with open(f"{root}/{name}/name") as file:
            if file.read().strip() == "nova-vp.commands":
                return f"/dev/{name}"
    raise SystemExit("no port nova-vp.commands")


class NearEndGone(Exception):
    pass


class CheckoutBusy(Exception):
    pass


class Port:
    def __init__(self):
        self.fd = os.open(find_port(), os.O_RDWR)
        self._pending = b""

    def send(self, kind, payload=b""):
        data = kind + struct.pack(">I", len(payload)) + payload
        while data:
            data = data[os.write(self.fd, data) :]

    def read_request(self):
        """Blocks. An end of file only means that nobody is at the near end."""
        while b"\n" not in self._pending:
            more = os.read(self.fd, 65536)
            if not more:
                self._pending = b""
                time.sleep(0.05)
            self._pending += more
        line, self._pending = self._pending.split(b"\n", 1)
        return json.loads(line)


def mount_checkout(path):
    """Anew for each command, so that it sees what has changed; written to in memory only, but for
    its .cache, which is the machine's own and stays."""
    for place in (f"{path}/.cache", path, f"{LAYERS}/below", LAYERS):
        subprocess.run(["umount", "-l", place], check=False, stderr=subprocess.DEVNULL)
    os.makedirs(LAYERS, exist_ok=True)
    os.makedirs(path, exist_ok=True)
    mount("tmpfs", "-o", "mode=755", "layers", LAYERS)
    for folder in ("below", "above", "work"):
        os.mkdir(f"{LAYERS}/{folder}")
    mount_when_free("-o", f"{NINEP},cache=loose,ro", "checkout", f"{LAYERS}/below")
    layers = f"lowerdir={LAYERS}/below,upperdir={LAYERS}/above,workdir={LAYERS}/work"
    mount("overlay", "-o", layers, "checkout", path)
    os.makedirs(f"{path}/.cache", exist_ok=True)
    mount_when_free("-o", NINEP, "cache", f"{path}/.cache")


def mount(kind, *arguments):
    subprocess.run(["mount", "-t", kind, *arguments], check=True)


def mount_when_free(*arguments):
    """A share is mounted once at a time, and what a killed run left behind may still be ending."""
    end_s = time.monotonic() + BUSY_DEADLINE_S
    while True:
        done = subprocess.run(["mount", "-t", "9p", *arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return
        if time.monotonic() > end_s:
            raise CheckoutBusy(done.stderr.strip())
        time.sleep(0.1)


def run(port, request):
    try:
        mount_checkout(request["checkout"])
    except CheckoutBusy as exc:
        text = f"processes of an earlier run still use the checkout, `down` ends them: {exc}"
        port.send(b"e", f"machine: {text}\n".encode())
        return 125
    try:
        process = subprocess.Popen(
            request["argv"],
            cwd=request["cwd"],
            env=request["env"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as exc:
        port.send(b"e", f"machine: {request['argv'][0]}: {exc.strerror}\n".encode())
        return 127
    try:
        stream(port, process)
    finally:
        kill_group(process.pid)
    status = process.wait()
    return status if status >= 0 else 128 - status


def stream(port, process):
    """Until the command ends; what still holds its pipes then is not waited for."""
    kinds = {process.stdout.fileno(): b"o", process.stderr.fileno(): b"e"}
    ended = os.pidfd_open(process.pid)
    poll = select.poll()
    for fd in (*kinds, ended):
        poll.register(fd, select.POLLIN)
    # POLLHUP is always reported. Input is of the next near end: this one sends none meanwhile.
    poll.register(port.fd, select.POLLIN)
    is_running = True
    while is_running:
        ready = poll.poll()
        is_running = (ended, select.POLLIN) not in ready
        for fd, _ in ready:
            if fd == port.fd:
                raise NearEndGone
            if fd in kinds and not forward(port, fd, kinds[fd]):
                poll.unregister(fd)
                del kinds[fd]
    os.close(ended)
    for fd, kind in kinds.items():
        os.set_blocking(fd, False)
        while forward(port, fd, kind):
            pass


def forward(port, fd, kind):
    try:
        data = os.read(fd, 65536)
    except BlockingIOError:
        return False
    if data:
        port.send(kind, data)
    return bool(data)


def kill_group(pid):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def main():
    port = Port()
    while True:
        request = port.read_request()
        try:
            if "argv" not in request:
                port.send(b"r")
                continue
            port.send(b"x", str(run(port, request)).encode())
        except NearEndGone:
            continue


if __name__ == "__main__":
    main()
