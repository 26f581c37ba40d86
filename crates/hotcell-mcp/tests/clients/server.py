"""A project to work in, and `hotcell mcp` in it, for the clients' scripts."""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import time

TOKEN = "one-" + "0123456789abcdef" * 2
OTHER_TOKEN = "two-" + "0123456789abcdef" * 2


@contextlib.contextmanager
def project():
    """A directory with two files, one of which the policy denies."""
    with tempfile.TemporaryDirectory(prefix="hotcell-clients-") as directory:
        place = pathlib.Path(directory).resolve()
        (place / "notes.txt").write_text("first\n")
        (place / "secret.txt").write_text("the secret\n")
        yield place


def arguments(place):
    """What `hotcell` is started with, whatever the transport."""
    return ["mcp", "--workspace", str(place), "--deny", str(place / "secret.txt")]


def environment():
    """Nothing of ours that could change what it does."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8"}


@contextlib.contextmanager
def over_http(hotcell, place, *more):
    """A server on loopback: its address."""
    with tempfile.TemporaryDirectory(prefix="hotcell-tokens-") as directory:
        tokens = pathlib.Path(directory) / "tokens"
        tokens.write_text(f"{TOKEN}\n{OTHER_TOKEN}\n")
        tokens.chmod(0o600)
        log = pathlib.Path(directory) / "log"
        command = [hotcell, *arguments(place), "--http", "127.0.0.1:0", "--token-file", str(tokens), *more]
        with open(log, "wb") as errors:
            child = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        try:
            yield address(child, log)
        finally:
            child.terminate()
            child.wait(timeout=30)


def address(child, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*", log.read_text())
        if found:
            return found.group()
        time.sleep(0.02)
    raise AssertionError(f"the server does not say where it listens: {log.read_text()}")


def processes_with(word):
    """The processes of this machine with a word on their command lines."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def comes_true(what, condition):
    """Waits for something that takes a moment. Far longer than anything here takes; only a failure waits for it."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
