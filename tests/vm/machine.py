"""A virtual machine with a real kernel: soft-RoCE and perftest, on taps of a network namespace of our own."""

from __future__ import annotations

import gzip
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
IMAGE = HERE.parent.parent / "target" / "vm"
BOOT_S, COMMAND_S = 180.0, 120.0


def image(series: str = "") -> Path:
    """The folder of the image, made when there is none; skips the test where that cannot be. `series` is the
    kernel's, "6.12" say; none: the distribution's own."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("a virtual machine needs root, and Debian's packages")
    if subprocess.run([str(HERE / "image"), str(IMAGE), *filter(None, [series])], check=False).returncode:
        pytest.skip("the image of the virtual machine cannot be made: the lines above say why")
    return IMAGE


class Machine:
    """Boots, carries out commands over the serial line, and is gone with the object."""

    def __init__(
        self,
        image: Path,
        namespace: str,
        taps: list[str],
        log: Path,
        series: str = "",
        accelerator: str = "tcg,thread=multi",
        cores: int = 1,
        files: list[Path] | None = None,
    ) -> None:
        """A NIC of the machine, eth0 and on, for each tap; `files` are in its root folder."""
        nics = []
        for number, tap in enumerate(taps):
            nics += ["-netdev", f"tap,id=n{number},ifname={tap},script=no,downscript=no,vnet_hdr=off"]
            nics += ["-device", f"virtio-net-pci,netdev=n{number},host_mtu=9000"]
        kernel = "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off"
        dash = f"-{series}" if series else ""
        root = image / f"initrd{dash}.gz"
        if files:
            root = _with(root, files, log.with_suffix(".initrd"))
        command = ["ip", "netns", "exec", namespace] if namespace else []
        command += ["qemu-system-x86_64", "-accel", accelerator, "-cpu", "max", "-smp", str(cores)]
        command += ["-m", "1024", "-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]
        command += ["-kernel", str(image / f"vmlinuz{dash}"), "-initrd", str(root)]
        self.log = log.open("wb")
        self.process = subprocess.Popen(
            [*command, "-append", kernel, *nics],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        self.rest = b""
        self._until(b"READY\n", BOOT_S)

    def start(self, command: str) -> None:
        """Begins a command; `end` waits for it."""
        assert self.process.stdin
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, patience_s: float = COMMAND_S) -> tuple[int, str]:
        """Status and output of the command that was begun."""
        output = self._until(b"STATUS ", patience_s)
        status = self._until(b"\n", patience_s)
        return int(status), output.decode("utf-8", "replace")

    def run(self, command: str, patience_s: float = COMMAND_S) -> str:
        """The output of a command that succeeds."""
        self.start(command)
        status, output = self.end(patience_s)
        assert status == 0, f"{command}: {status}\n{output}"
        return output

    def close(self) -> None:
        """Off."""
        self.process.kill()
        self.process.wait()
        self.log.close()

    def _until(self, mark: bytes, patience_s: float) -> bytes:
        assert self.process.stdout
        until = time.monotonic() + patience_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while mark not in self.rest:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError(f"no {mark!r} within {patience_s} s: {self.rest[-2000:]!r}")
                part = os.read(self.process.stdout.fileno(), 65_536)
                assert part, f"the machine is off: {self.rest[-2000:]!r}"
                self.log.write(part)
                self.rest += part.replace(b"\r", b"")
        found, self.rest = self.rest.split(mark, 1)
        return found


def ip(arguments: str) -> None:
    """A command of `ip` that succeeds."""
    subprocess.run(["ip", *arguments.split()], check=True)


class There:
    """A network namespace of our own, where a machine with soft-RoCE and `tailback` meet. Its tap `rdma0` is
    the machine's eth0, with rxe0; perftest's exchange has `mgmt0`, and `endpoint_at` at our end of it. With
    `veth` there is a pair, too, `e0` and `p0`.
    """

    def __init__(self, name: str, endpoint_at: str, machine_at: str, *, veth: bool = False) -> None:
        """It is there within `booted`."""
        self.name, self.endpoint_at, self.machine_at, self.veth = name, endpoint_at, machine_at, veth

    def start(self, *command: str | Path, **more: Any) -> subprocess.Popen[str]:
        """Starts a command in the namespace."""
        inside = ["ip", "netns", "exec", self.name, *map(str, command)]
        return subprocess.Popen(inside, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)

    def tailback(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Starts tailback there."""
        return self.start(sys.executable, "-m", "tailback.cli", *arguments)

    def endpoint(self, folder: Path, scenario: str, *arguments: str) -> subprocess.Popen[str]:
        """Starts `tailback endpoint`; its result goes to `run` in the folder."""
        file = folder / "scenario.yaml"
        file.write_text(scenario)
        return self.tailback("endpoint", file, *arguments, "--out", folder / "run", "--no-report")

    @contextmanager
    def booted(self, folder: Path) -> Iterator[Machine]:
        """The machine, for as long as it is used."""
        where = image()
        subprocess.run(["ip", "netns", "delete", self.name], check=False, stderr=subprocess.DEVNULL)
        ip(f"netns add {self.name}")
        try:
            names = ["rdma0", "mgmt0"]
            for tap in names:
                ip(f"-n {self.name} tuntap add dev {tap} mode tap")
            if self.veth:
                ip(f"-n {self.name} link add e0 mtu 4300 type veth peer name p0")
                names += ["e0", "p0"]
            for name in names:
                off = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
                self.start("sh", "-c", f"echo 1 > {off}").communicate()
                ip(f"-n {self.name} link set {name} mtu 4300 up")
            ip(f"-n {self.name} addr add {self.endpoint_at}/24 dev mgmt0")
            made = Machine(where, self.name, ["rdma0", "mgmt0"], folder / "log")
            try:
                made.run("ip addr add 10.84.200.1/16 dev eth0 && ip link set eth0 mtu 4300 up")
                made.run(f"ip addr add {self.machine_at}/24 dev eth1 && ip link set eth1 up")
                made.run("rdma link add rxe0 type rxe netdev eth0")
                yield made
            finally:
                made.close()
        finally:
            ip(f"netns delete {self.name}")


def _with(root: Path, files: list[Path], into: Path) -> Path:
    """An archive with more files behind, which the kernel unpacks as one."""
    more = b""
    for file in files:
        more += subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"],
            input=f"{file.name}\n".encode(),
            cwd=file.parent,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    into.write_bytes(root.read_bytes() + gzip.compress(more))
    return into
