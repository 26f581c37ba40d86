"""The official OpenSandbox SDK against a server that speaks its API.

The server is named by the SDK's own variables, OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY, the image by the first
argument. With `--proxy` everything goes through the server. Prints a line for each case.
"""

import sys
import uuid
from datetime import timedelta

from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException, SandboxException
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.filesystem import (
    ContentReplaceEntry,
    DirectoryListEntry,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)
from opensandbox.models.sandboxes import SandboxFilter
from opensandbox.sync.manager import SandboxManagerSync
from opensandbox.sync.sandbox import SandboxSync

CONFIG = ConnectionConfigSync(use_server_proxy="--proxy" in sys.argv)
IMAGE = sys.argv[1]
MARK = uuid.uuid4().hex


def create(**more):
    return SandboxSync.create(
        IMAGE,
        timeout=timedelta(minutes=5),
        env={"FROM_CREATE": "yes"},
        metadata={"mark": MARK},
        resource={"cpu": "500m", "memory": "256Mi"},
        entrypoint=["tail", "-f", "/dev/null"],
        connection_config=CONFIG,
        **more,
    )


def text(messages):
    return [message.text for message in messages]


def run_collects_both_streams(box):
    execution = box.commands.run("echo out; echo; echo err >&2")
    assert text(execution.logs.stdout) == ["out", "\n"], execution
    assert text(execution.logs.stderr) == ["err"] and execution.exit_code == 0, execution


def exit_code_arrives_as_an_error(box):
    execution = box.commands.run("echo before; exit 3")
    assert execution.exit_code == 3 and execution.error.value == "3", execution
    assert text(execution.logs.stdout) == ["before"], execution


def output_is_streamed(box):
    # The second line is written only after the first was seen here.
    seen = []

    def on_stdout(message):
        seen.append(message.text)
        if message.text == "one":
            box.files.write_file("/tmp/go-on", "x")

    script = "echo one; until [ -e /tmp/go-on ]; do sleep 0.05; done; echo two"
    execution = box.commands.run(script, handlers=ExecutionHandlersSync(on_stdout=on_stdout))
    assert seen == ["one", "two"] and execution.exit_code == 0, (seen, execution)


def variables_and_directories_are_taken(box):
    execution = box.commands.run(
        "echo $A $FROM_CREATE; pwd", opts=RunCommandOpts(envs={"A": "1"}, working_directory="/usr")
    )
    assert text(execution.logs.stdout) == ["1 yes", "/usr"], execution


def a_timeout_ends_a_command(box):
    execution = box.commands.run("sleep 600", opts=RunCommandOpts(timeout=timedelta(seconds=1)))
    assert execution.error is not None and execution.error.value == "-1", execution
    rest = box.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 600" not in " ".join(text(rest.logs.stdout)), rest


def background_commands_are_read_by_cursor_and_interrupted(box):
    execution = box.commands.run(
        "echo one; until [ -e /tmp/more ]; do sleep 0.05; done; echo two; sleep 600", opts=RunCommandOpts(background=True)
    )
    status = box.commands.get_command_status(execution.id)
    assert status.running and status.exit_code is None, status
    content, cursor = "", 0
    while content != "one\n":
        logs = box.commands.get_background_command_logs(execution.id, cursor=cursor)
        content, cursor = content + logs.content, logs.cursor
    box.files.write_file("/tmp/more", "x")
    rest = ""
    while rest != "two\n":
        logs = box.commands.get_background_command_logs(execution.id, cursor=cursor)
        rest, cursor = rest + logs.content, logs.cursor
    box.commands.interrupt(execution.id)
    while box.commands.get_command_status(execution.id).running:
        pass
    assert box.commands.get_command_status(execution.id).exit_code == -1


def sessions_keep_their_state(box):
    session = box.commands.create_session(working_directory="/tmp")
    box.commands.run_in_session(session, "export A=1; cd /usr")
    execution = box.commands.run_in_session(session, "echo $A $PWD")
    assert text(execution.logs.stdout) == ["1 /usr"], execution
    assert box.commands.run_in_session(session, "exit 7").exit_code == 7
    box.commands.delete_session(session)


def files_go_up_and_down(box):
    box.files.write_file("/tmp/dir/a.txt", "hello\nworld\n", mode=640)
    assert box.files.read_file("/tmp/dir/a.txt") == "hello\nworld\n"
    blob = bytes(range(256)) * 1000
    box.files.write_file("/tmp/blob", blob)
    assert box.files.read_bytes("/tmp/blob") == blob
    assert box.files.read_bytes("/tmp/blob", range_header="bytes=1-3") == b"\x01\x02\x03"
    assert b"".join(box.files.read_bytes_stream("/tmp/blob")) == blob
    info = box.files.get_file_info(["/tmp/dir/a.txt"])["/tmp/dir/a.txt"]
    assert (info.size, info.mode, info.owner) == (12, 640, "root"), info
    box.files.write_files([WriteEntry(path="/tmp/one", data="1"), WriteEntry(path="/tmp/two", data="2")])
    assert text(box.commands.run("cat /tmp/one /tmp/two").logs.stdout) == ["12"]


def files_are_listed_moved_and_removed(box):
    box.files.create_directories([WriteEntry(path="/tmp/made/deep", mode=755)])
    box.files.write_file("/tmp/made/f.txt", "a b a")
    listed = {entry.path: entry for entry in box.files.list_directory(DirectoryListEntry(path="/tmp/made", depth=2))}
    assert sorted(listed) == ["/tmp/made/deep", "/tmp/made/f.txt"], listed
    found = box.files.search(SearchEntry(path="/tmp/made", pattern="*.txt"))
    assert [entry.path for entry in found] == ["/tmp/made/f.txt"], found
    box.files.set_permissions([SetPermissionEntry(path="/tmp/made/f.txt", mode=600)])
    box.files.replace_contents([ContentReplaceEntry(path="/tmp/made/f.txt", old_content="a", new_content="c")])
    box.files.move_files([MoveEntry(src="/tmp/made/f.txt", dest="/tmp/made/g.txt")])
    assert box.files.read_file("/tmp/made/g.txt") == "c b c"
    assert text(box.commands.run("stat -c %a /tmp/made/g.txt").logs.stdout) == ["600"]
    box.files.delete_files(["/tmp/made/g.txt"])
    box.files.delete_directories(["/tmp/made"])
    try:
        box.files.read_file("/tmp/made/g.txt")
    except SandboxException:
        pass
    else:
        raise AssertionError("a file that is not there was read")


def metrics_are_there(box):
    metrics = box.get_metrics()
    assert metrics.cpu_count >= 1 and metrics.memory_total_in_mib > 0, metrics


def a_lifetime_is_renewed(box):
    before = box.get_info().expires_at
    box.renew(timedelta(minutes=30))
    assert box.get_info().expires_at > before


def sandboxes_are_listed_by_metadata(box):
    with SandboxManagerSync.create(CONFIG) as manager:
        listed = manager.list_sandbox_infos(SandboxFilter(metadata={"mark": MARK}, states=["Running"]))
        assert [info.id for info in listed.sandbox_infos] == [box.id], listed
        assert not manager.list_sandbox_infos(SandboxFilter(metadata={"mark": "none"})).sandbox_infos


def a_sandbox_is_paused_and_resumed(box):
    box.pause()
    assert box.get_info().status.state == "Paused"
    with SandboxManagerSync.create(CONFIG) as manager:
        manager.resume_sandbox(box.id)
    assert box.get_info().status.state == "Running"
    assert box.commands.run("true").exit_code == 0


def a_snapshot_is_a_sandbox_again(box):
    box.files.write_file("/root/kept", "yes")
    snapshot = box.create_snapshot("kept")
    with SandboxManagerSync.create(CONFIG) as manager:
        while manager.get_snapshot(snapshot.id).status.state == "Creating":
            pass
        other = SandboxSync.create(
            snapshot_id=snapshot.id,
            timeout=timedelta(minutes=5),
            entrypoint=["tail", "-f", "/dev/null"],
            connection_config=CONFIG,
        )
        try:
            assert other.files.read_file("/root/kept") == "yes"
        finally:
            other.kill()
            manager.delete_snapshot(snapshot.id)


def a_wrong_key_is_refused(box):
    try:
        config = ConnectionConfigSync(api_key="wrong")
        with SandboxManagerSync.create(config) as manager:
            manager.get_sandbox_info(box.id)
    except SandboxApiException as error:
        assert error.status_code == 401, error
    else:
        raise AssertionError("a wrong key was accepted")


CASES = [
    run_collects_both_streams,
    exit_code_arrives_as_an_error,
    output_is_streamed,
    variables_and_directories_are_taken,
    a_timeout_ends_a_command,
    background_commands_are_read_by_cursor_and_interrupted,
    sessions_keep_their_state,
    files_go_up_and_down,
    files_are_listed_moved_and_removed,
    metrics_are_there,
    a_lifetime_is_renewed,
    sandboxes_are_listed_by_metadata,
    a_sandbox_is_paused_and_resumed,
    a_snapshot_is_a_sandbox_again,
    a_wrong_key_is_refused,
]

if __name__ == "__main__":
    box = create()
    try:
        for case in CASES:
            case(box)
            print("ok", case.__name__, flush=True)
    finally:
        box.kill()
