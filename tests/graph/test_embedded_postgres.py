"""The embedded server: who may reach it, who owns it, and that it never outlives its owner."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from context_engine.postgres import EmbeddedPostgres
from core.errors import ConfigError

OWNER = """
import sys, time
from pathlib import Path
from context_engine.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
ingest, _ = server.start()
print(ingest, flush=True)
sys.stdin.read()
if sys.argv[2] == "raise":
    raise SystemExit(3)
if sys.argv[2] == "fork":
    import os
    if os.fork() == 0:
        raise SystemExit(0)
    os.wait()
    print("forked", flush=True)
    time.sleep(60)
"""
WAIT = 15.0


@pytest.fixture
def data() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="context-engine-launcher-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def owner(data: Path, how: str = "wait") -> tuple[subprocess.Popen[str], str]:
    """Another process that owns the folder, and its DSN."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(data), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert process.stdout is not None
    dsn = process.stdout.readline().strip()
    assert dsn.startswith("postgresql://")
    return process, dsn


def server_pid(data: Path) -> int:
    return int((data / "postgres" / "server" / "data" / "postmaster.pid").read_text().splitlines()[0])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def ends(pid: int) -> bool:
    """Whether the process ends within the time that a test may wait."""
    limit = time.monotonic() + WAIT
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def _as_nobody(script: str, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    """Run a script as an ordinary user; None where that user can't even import what it needs."""
    try:
        return subprocess.run(
            [sys.executable, "-B", "-c", script, *arguments],
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True,
            text=True,
            check=bool(not arguments),
        )
    except (PermissionError, subprocess.CalledProcessError):
        return None


def write(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS x")


def kept(data: Path) -> object:
    with EmbeddedPostgres(data, durable=False) as server, psycopg.connect(server.ingest_dsn) as connection:
        return connection.execute("SELECT x FROM kept").fetchone()


def test_the_server_ends_with_an_owner_that_is_killed_and_the_data_stays(data: Path) -> None:
    process, dsn = owner(data)
    write(dsn)
    pid = server_pid(data)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert ends(pid)
    assert kept(data) == (42,)


def test_the_server_ends_even_if_its_watcher_is_killed_with_its_owner(data: Path) -> None:
    process, dsn = owner(data)
    write(dsn)
    pid = server_pid(data)
    watcher = parent_of(pid)
    os.kill(watcher, signal.SIGSTOP)
    process.send_signal(signal.SIGKILL)
    process.wait()
    os.kill(watcher, signal.SIGKILL)
    assert ends(pid)
    assert kept(data) == (42,)


def test_a_server_that_lost_everybody_is_ended_by_the_next_owner(data: Path) -> None:
    """As if both guards had failed: the server is started by hand, without either."""
    with EmbeddedPostgres(data, durable=False) as server:
        write(server.ingest_dsn)
    cluster = data / "postgres" / "server" / "data"
    from context_engine.postgres import _binaries
    from context_engine.postgres_folder import free_port

    other_port = free_port()
    drop = (
        {"user": cluster.stat().st_uid, "group": cluster.stat().st_gid, "extra_groups": []} if os.getuid() == 0 else {}
    )
    if drop:
        data.chmod(0o711)
    orphan = subprocess.Popen(
        [_binaries() / "bin" / "postgres", "-D", cluster, "-c", "unix_socket_directories=", "-p", str(other_port)],
        stderr=subprocess.DEVNULL,
        cwd="/",
        **drop,  # type: ignore[arg-type]
    )
    try:
        limit = time.monotonic() + WAIT
        while not (cluster / "postmaster.pid").exists() and time.monotonic() < limit:
            time.sleep(0.02)
        assert server_pid(data) == orphan.pid
        assert kept(data) == (42,)
        assert orphan.wait(WAIT) == 0
    finally:
        orphan.kill()
        orphan.wait()


def test_a_pid_file_left_by_a_lost_machine_does_not_keep_the_server_down(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server:
        write(server.ingest_dsn)
    stale = data / "postgres" / "server" / "data" / "postmaster.pid"
    # The number now belongs to somebody else, who must be left alone.
    stale.write_text(f"{os.getpid()}\n")
    assert kept(data) == (42,)


def test_the_second_owner_is_told_who_has_the_folder(data: Path) -> None:
    process, _ = owner(data)
    try:
        with pytest.raises(ConfigError, match=f"in use by process {process.pid}"):
            EmbeddedPostgres(data).start()
    finally:
        process.kill()
        process.wait()
    with EmbeddedPostgres(data, durable=False) as server:
        with pytest.raises(ConfigError, match="in use by this process itself"):
            EmbeddedPostgres(data).start()
        psycopg.connect(server.query_dsn).close()


@pytest.mark.parametrize(("how", "code"), [("wait", 0), ("raise", 3)])
def test_the_server_ends_with_an_owner_that_forgets_it(data: Path, how: str, code: int) -> None:
    process, _ = owner(data, how)
    pid = server_pid(data)
    process.communicate("")
    assert process.returncode == code
    assert ends(pid)


def test_the_server_ends_with_an_owner_that_is_asked_to_end(data: Path) -> None:
    process, _ = owner(data)
    pid = server_pid(data)
    process.terminate()
    process.wait()
    assert ends(pid)


def test_a_fork_of_the_owner_that_ends_takes_nothing_with_it(data: Path) -> None:
    process, dsn = owner(data, "fork")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.stdout.readline().strip() == "forked"
    psycopg.connect(dsn).close()
    with pytest.raises(ConfigError, match=f"in use by process {process.pid}"):
        EmbeddedPostgres(data).start()
    process.kill()
    process.wait()


def test_ctrl_c_at_the_terminal_is_the_owners_business(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server:
        assert os.getpgid(server_pid(data)) != os.getpgid(0)
        os.kill(parent_of(server_pid(data)), signal.SIGHUP)
        psycopg.connect(server.ingest_dsn).close()


def test_a_second_start_is_quick_and_keeps_port_and_passwords(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server:
        first = (server.ingest_dsn, server.query_dsn)
    began = time.monotonic()
    with EmbeddedPostgres(data, durable=False) as server:
        took = time.monotonic() - began
        assert (server.ingest_dsn, server.query_dsn) == first
    assert took < 5  # some 0.15 s on a quiet machine; this bound is for a busy one


def test_a_port_that_was_taken_meanwhile_is_replaced(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server:
        write(server.ingest_dsn)
        port = json.loads((data / "postgres" / "credentials.json").read_text())["port"]
    import socket

    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        assert kept(data) == (42,)


def test_secrets_are_for_the_owner_alone_and_no_other_address_is_listened_on(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server:
        home = data / "postgres"
        for name in ("credentials.json", "log", "lock"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600, name
        assert stat.S_IMODE((home / "server").stat().st_mode) == 0o700
        assert not (home / "server" / "password").exists()
        credentials = json.loads((home / "credentials.json").read_text())
        arguments = Path(f"/proc/{server_pid(data)}/cmdline").read_text()
        with psycopg.connect(server.superuser_dsn) as connection:
            shown = (
                connection.execute("SHOW listen_addresses").fetchone(),
                connection.execute("SHOW unix_socket_directories").fetchone(),
            )
        assert shown == (("127.0.0.1",), ("",))
        for role in ("superuser", "ingest", "query"):
            assert credentials[role] not in arguments + (home / "log").read_text()
        without = server.ingest_dsn.replace(credentials["ingest"], "guess")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(without)


def test_a_failed_statement_leaves_no_text_of_people_in_the_log(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server, psycopg.connect(server.ingest_dsn) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 'somebody''s secret', 1/0")
        assert "division by zero" in (data / "postgres" / "log").read_text()
        assert "secret" not in (data / "postgres" / "log").read_text()


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's server runs as that user")
def test_root_gives_the_server_an_ordinary_user_and_touches_nothing_outside_the_folder(data: Path) -> None:
    closed = data / "closed"
    closed.mkdir(mode=0o700)
    before = data.stat().st_mode, closed.stat().st_mode
    with EmbeddedPostgres(closed / "inner", durable=False) as server:
        status = Path(f"/proc/{server_pid(closed / 'inner')}/status").read_text()
        psycopg.connect(server.ingest_dsn).close()
    values = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(values["Uid"].split()) == {"65534"}
    assert values["Groups"].split() in ([], ["65534"])
    # At most to pass closed directories: CAP_DAC_READ_SEARCH, or CAP_DAC_OVERRIDE where we have not got that.
    assert int(values["CapEff"], 16) in (1 << 2, 1 << 1)
    assert (data.stat().st_mode, closed.stat().st_mode) == before


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become somebody else")
def test_an_ordinary_user_owns_server_and_files(data: Path) -> None:
    data.chmod(0o777)
    made = (
        "import sys; from pathlib import Path; from context_engine.postgres import EmbeddedPostgres;"
        "s = EmbeddedPostgres(Path(sys.argv[1]), durable=False); s.start(); s.stop(); print('done')"
    )
    if _as_nobody("import context_engine.postgres") is None:
        pytest.skip("this interpreter or checkout is not readable for others")
    run = _as_nobody(made, str(data / "mine"))
    assert run is not None
    assert run.stdout == "done\n", run.stderr
    assert {p.stat().st_uid for p in (data / "mine").rglob("*")} == {65534}


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="can't be used"):
        EmbeddedPostgres(tmp_path / "file").start()


def test_damaged_or_missing_credentials_are_a_clear_error(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False):
        pass
    credentials = data / "postgres" / "credentials.json"
    credentials.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        EmbeddedPostgres(data).start()
    credentials.unlink()
    with pytest.raises(ConfigError, match="missing"):
        EmbeddedPostgres(data).start()


def test_a_start_that_was_cut_short_is_begun_again(data: Path) -> None:
    process, _ = owner(data)
    process.kill()
    process.wait()
    cluster = data / "postgres" / "server" / "data"
    with EmbeddedPostgres(data, durable=False):
        pass
    cluster.rename(cluster.with_name("draft"))
    credentials = data / "postgres" / "credentials.json"
    known = json.loads(credentials.read_text())
    credentials.write_text(json.dumps({**known, "ready": False}))
    with EmbeddedPostgres(data, durable=False) as server:
        psycopg.connect(server.ingest_dsn).close()
