"""Runs one Postgres program for `context_engine.postgres`: with little privilege, and never longer than its owner.

Started as a script (`python -I -S postgres_child.py JOB`), so that nothing is done between a fork and an exec of the
owner, which may hold threads and locks. Standard library only. JOB is JSON:

    argv     the program and its arguments
    reach    paths that the program must be able to enter
    uid      become this user (and group) first; null where we are not root
    watch    true: the program is a server. It gets SIGINT (fast shutdown) when our standard input closes, which
             happens however the owner ends, and by the kernel when we end ourselves.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys

UNREACHABLE = 77
NO_SUCH_USER = 78
PATIENCE = 20.0

_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x20080522


def main() -> int:
    """Do the job; return the program's exit code."""
    job = json.loads(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if job["uid"] is not None:
        refusal = _drop(job["uid"], job["reach"], libc)
        if refusal:
            return refusal
    if not job["watch"]:
        return subprocess.run(job["argv"], stdin=subprocess.DEVNULL, check=False).returncode  # noqa: S603 (the wheel's)
    return _serve(job["argv"], libc)


def _drop(uid: int, reach: list[str], libc: ctypes.CDLL | None) -> int:
    """Become `uid`. Where the way to `reach` is closed to it (a data folder below /root, 0700), keep the one
    capability to pass through directories, rather than open a directory that is not ours or put data elsewhere."""
    try:
        os.setgroups([])
        os.setegid(uid)
        os.seteuid(uid)
    except OSError:
        return NO_SUCH_USER
    open_way = all(os.access(path, os.R_OK | os.X_OK, effective_ids=True) for path in reach)
    os.seteuid(0)
    os.setegid(0)
    capability = None if open_way else _usable_capability()
    if not open_way and (capability is None or libc is None):
        return UNREACHABLE
    if capability is not None and libc is not None:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgid(uid)
    os.setuid(uid)
    if capability is not None and libc is not None and not _keep_only(capability, libc):
        return UNREACHABLE
    return 0


def _usable_capability() -> int | None:
    """The least capability of ours that passes closed directories; None: we have none."""
    with open("/proc/self/status") as status:
        held = next((int(line.split()[1], 16) for line in status if line.startswith("CapPrm:")), 0)
    for capability in (_CAP_DAC_READ_SEARCH, _CAP_DAC_OVERRIDE):
        if held >> capability & 1:
            return capability
    return None


def _keep_only(capability: int, libc: ctypes.CDLL) -> bool:
    """Give up every capability but one, and let the program that we start have that one too."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    bit = 1 << capability
    data = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    if libc.capset(ctypes.byref(header), ctypes.byref(data)) != 0:
        return False
    return bool(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0) == 0)


def _serve(argv: list[str], libc: ctypes.CDLL | None) -> int:
    owner = os.getppid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    me = os.getpid()

    def follow_us() -> None:
        # After the change of user: that clears it. We have one thread, so it means our end and nothing else.
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
            if os.getppid() != me:
                os._exit(1)

    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, preexec_fn=follow_us)  # noqa: S603
    while server.poll() is None and os.getppid() == owner:
        ready, _, _ = select.select([0, woken], [], [], 1.0)
        if woken in ready and any(byte in (signal.SIGTERM, signal.SIGINT) for byte in os.read(woken, 64)):
            break
        if 0 in ready and not os.read(0, 64):
            break
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if server.poll() is not None:
            break
        server.send_signal(number)
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            continue
    return server.returncode if server.returncode is not None else 1


if __name__ == "__main__":
    sys.exit(main())
