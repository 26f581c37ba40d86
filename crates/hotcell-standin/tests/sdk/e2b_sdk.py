"""The official E2B SDK against a server that speaks its API.

The server is named by the SDK's own variables: E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY. Prints a line for each case.
"""

import os
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid

import e2b
from e2b import CommandExitException, NotFoundException, Sandbox, SandboxQuery, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize
from e2b_code_interpreter import Sandbox as Interpreter


def run_collects_both_streams(box):
    result = box.commands.run("echo out; echo err >&2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n"), result


def exit_code_is_an_exception_with_the_output(box):
    try:
        box.commands.run("echo before; exit 3")
    except CommandExitException as error:
        assert (error.exit_code, error.stdout) == (3, "before\n"), error
    else:
        raise AssertionError("exit 3 raised nothing")


def output_is_streamed(box):
    # The second half is written only after the first was seen here.
    seen = []
    handle = box.commands.run("echo one; read line; echo got $line", background=True, stdin=True)

    def on_stdout(text):
        seen.append(text)
        if text == "one\n":
            box.commands.send_stdin(handle.pid, "two\n")

    result = handle.wait(on_stdout=on_stdout)
    assert result.exit_code == 0 and "".join(seen) == "one\ngot two\n", (result, seen)


def stdin_can_be_closed(box):
    handle = box.commands.run("cat; echo end", background=True, stdin=True)
    box.commands.send_stdin(handle.pid, "some input")
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "some inputend\n"


def variables_and_directories_are_taken(box):
    result = box.commands.run("echo $A $FROM_CREATE; pwd", envs={"A": "1"}, cwd="/usr")
    assert result.stdout == "1 yes\n/usr\n", result
    assert box.commands.run("pwd; echo $HOME").stdout == "/home/user\n/home/user\n"


def background_commands_are_listed_connected_to_and_killed(box):
    handle = box.commands.run("read line; echo got $line; sleep 600", background=True, stdin=True)
    assert handle.pid in [process.pid for process in box.commands.list()]
    handle.disconnect()
    again = box.commands.connect(handle.pid)
    box.commands.send_stdin(handle.pid, "hello\n")
    for stdout, _, _ in again:
        if stdout:
            assert stdout == "got hello\n", stdout
            break
    assert box.commands.kill(handle.pid) is True
    assert box.commands.kill(handle.pid) is False
    assert handle.pid not in [process.pid for process in box.commands.list()]


def a_killed_command_says_so(box):
    handle = box.commands.run("sleep 600", background=True)
    assert handle.kill() is True
    try:
        handle.wait()
    except CommandExitException as error:
        assert error.exit_code == -1 and "signal" in str(error.error), (error.exit_code, error.error)
    else:
        raise AssertionError("a killed command raised nothing")


def a_timeout_ends_a_command(box):
    try:
        box.commands.run("sleep 600", timeout=1)
    except TimeoutException:
        pass
    else:
        raise AssertionError("no timeout")
    assert "sleep 600" not in box.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def a_terminal_has_a_size_and_takes_input(box):
    seen = []
    ready = threading.Event()
    terminal = box.pty.create(PtySize(rows=30, cols=100), timeout=60)
    box.pty.resize(terminal.pid, PtySize(rows=11, cols=22))
    box.pty.send_stdin(terminal.pid, b"stty size; exit 4\n")

    def on_pty(data):
        seen.append(data)
        ready.set()

    try:
        terminal.wait(on_pty=on_pty)
    except CommandExitException as error:
        assert error.exit_code == 4, error
    assert b"11 22" in b"".join(seen), seen


def files_go_up_and_down(box):
    written = box.files.write("/home/user/dir/a.txt", "hello")
    assert written.path == "/home/user/dir/a.txt", written
    assert box.files.read("/home/user/dir/a.txt") == "hello"
    assert box.files.read("dir/a.txt") == "hello"
    blob = bytes(range(256)) * 1000
    box.files.write("/tmp/blob", blob)
    assert bytes(box.files.read("/tmp/blob", format="bytes")) == blob
    box.files.write_files([{"path": "/tmp/one", "data": "1"}, {"path": "/tmp/two", "data": "2"}])
    assert box.commands.run("cat /tmp/one /tmp/two").stdout == "12"
    assert b"".join(box.files.read("/tmp/blob", format="stream")) == blob


def files_are_listed_moved_and_removed(box):
    assert box.files.make_dir("/home/user/made/deep") is True
    assert box.files.make_dir("/home/user/made/deep") is False
    box.files.write("/home/user/made/f", "12345")
    box.commands.run("ln -s f /home/user/made/link")
    entries = {entry.name: entry for entry in box.files.list("/home/user/made")}
    assert sorted(entries) == ["deep", "f", "link"], entries
    assert entries["f"].size == 5 and entries["deep"].type.value == "dir", entries
    assert entries["link"].symlink_target == "/home/user/made/f", entries["link"]
    names = {entry.path for entry in box.files.list("/home/user", depth=3)}
    assert "/home/user/made/deep" in names, names
    assert box.files.rename("/home/user/made/f", "/home/user/made/g").name == "g"
    assert box.files.exists("/home/user/made/g") and not box.files.exists("/home/user/made/f")
    assert box.files.get_info("/home/user/made/g").size == 5
    box.files.remove("/home/user/made")
    assert not box.files.exists("/home/user/made")
    try:
        box.files.read("/home/user/made/g")
    except NotFoundException:
        pass
    else:
        raise AssertionError("a file that is not there was read")


def signed_addresses_need_no_token(box):
    box.files.write("/tmp/signed", "content")

    def ask(url, data=None):
        # The SDK's addresses have no routing headers; with one listener for all sandboxes they are needed.
        parts = urllib.parse.urlsplit(url)
        address = os.environ["E2B_SANDBOX_URL"] + parts.path + "?" + parts.query
        headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49983"}
        if data is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(address, data=data, headers=headers)
        with urllib.request.urlopen(request) as response:
            return response.read()

    assert ask(box.download_url("/tmp/signed", user="user")) == b"content"
    assert ask(box.download_url("/tmp/signed", user="user", use_signature_expiration=60)) == b"content"
    ask(box.upload_url("/tmp/signed", user="user"), b"changed")
    assert box.files.read("/tmp/signed") == "changed"
    for wrong in (
        box.download_url("/tmp/signed", user="user").replace("signed", "other"),
        box.download_url("/tmp/signed", user="user", use_signature_expiration=-60),
        box.upload_url("/tmp/signed", user="user"),
    ):
        try:
            ask(wrong)
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
        else:
            raise AssertionError(f"{wrong} was accepted")


def without_its_token_a_sandbox_does_nothing(box):
    for token, expected in ((None, 401), ("wrong", 401), (box._envd_access_token, 200)):
        headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49983", "Content-Type": "application/json"}
        if token is not None:
            headers["X-Access-Token"] = token
        address = os.environ["E2B_SANDBOX_URL"] + "/process.Process/List"
        request = urllib.request.Request(address, data=b"{}", headers=headers)
        try:
            with urllib.request.urlopen(request) as response:
                status = response.status
        except urllib.error.HTTPError as error:
            status = error.code
        assert status == expected, (token, status)


def sandboxes_are_listed_by_metadata_and_page(box):
    mark = uuid.uuid4().hex
    boxes = [Sandbox.create(timeout=60, metadata={"mark": mark, "n": f"{n} & more"}) for n in range(3)]
    try:
        listing = Sandbox.list(query=SandboxQuery(metadata={"mark": mark}), limit=2)
        first = listing.next_items()
        assert len(first) == 2 and listing.has_next, first
        second = listing.next_items()
        assert len(second) == 1 and not listing.has_next, second
        assert {entry.sandbox_id for entry in first + second} == {box.sandbox_id for box in boxes}
        exact = Sandbox.list(query=SandboxQuery(metadata={"mark": mark, "n": "1 & more"})).next_items()
        assert [entry.sandbox_id for entry in exact] == [boxes[1].sandbox_id], exact
    finally:
        for box in boxes:
            assert box.kill() is True


def a_lifetime_can_be_changed_and_ends(box):
    other = Sandbox.create(timeout=600)
    before = other.get_info().end_at
    other.set_timeout(1200)
    assert other.get_info().end_at > before
    assert other.is_running()
    other.set_timeout(0)
    while other.is_running():
        pass
    try:
        other.get_info()
    except NotFoundException:
        pass
    else:
        raise AssertionError("a sandbox outlived its time")


def a_sandbox_is_paused_and_connected_to(box):
    other = Sandbox.create(timeout=60)
    try:
        other.files.write("/home/user/kept", "yes")
        other.pause()
        assert other.get_info().state.value == "paused"
        assert not other.is_running()
        again = Sandbox.connect(other.sandbox_id, timeout=60)
        assert again.files.read("/home/user/kept") == "yes"
        assert again.get_metrics() is not None
    finally:
        assert other.kill() is True
    assert other.kill() is False


def a_killed_sandbox_is_gone(box):
    other = Sandbox.create(timeout=60)
    handle = other.commands.run("setsid sleep 600", background=True)
    assert other.kill() is True
    assert not other.is_running()
    try:
        handle.wait()
    except Exception:
        pass
    else:
        raise AssertionError("a command of a killed sandbox ended well")


def a_wrong_key_is_refused(box):
    try:
        Sandbox.create(api_key="wrong")
    except e2b.AuthenticationException:
        pass
    else:
        raise AssertionError("a wrong key was accepted")


def code_keeps_its_state(interpreter):
    assert interpreter.run_code("x = 20").error is None
    execution = interpreter.run_code("print('hi'); x + 1")
    assert execution.text == "21" and execution.logs.stdout == ["hi\n"], execution
    failed = interpreter.run_code("1/0")
    assert failed.error.name == "ZeroDivisionError", failed
    context = interpreter.create_code_context(cwd="/tmp", language="python")
    assert interpreter.run_code("import os; os.getcwd()", context=context).text == "'/tmp'"
    assert interpreter.run_code("x", context=context).error.name == "NameError"
    assert context.id in [other.id for other in interpreter.list_code_contexts()]
    interpreter.restart_code_context(context)
    interpreter.remove_code_context(context)
    interpreter.run_code("export A=1; cd /tmp", language="bash")
    shell = interpreter.run_code("echo $A $PWD; echo oops >&2", language="bash")
    assert (shell.logs.stdout, shell.logs.stderr) == (["1 /tmp\n"], ["oops\n"]), shell
    seen = []
    interpreter.run_code("print(1)", on_stdout=lambda line: seen.append(line.line))
    assert seen == ["1\n"], seen


CASES = [
    run_collects_both_streams,
    exit_code_is_an_exception_with_the_output,
    output_is_streamed,
    stdin_can_be_closed,
    variables_and_directories_are_taken,
    background_commands_are_listed_connected_to_and_killed,
    a_killed_command_says_so,
    a_timeout_ends_a_command,
    a_terminal_has_a_size_and_takes_input,
    files_go_up_and_down,
    files_are_listed_moved_and_removed,
    signed_addresses_need_no_token,
    without_its_token_a_sandbox_does_nothing,
    sandboxes_are_listed_by_metadata_and_page,
    a_lifetime_can_be_changed_and_ends,
    a_sandbox_is_paused_and_connected_to,
    a_killed_sandbox_is_gone,
    a_wrong_key_is_refused,
]

if __name__ == "__main__":
    with Sandbox.create(timeout=300, envs={"FROM_CREATE": "yes"}) as box:
        for case in CASES:
            case(box)
            print("ok", case.__name__, flush=True)
    with Interpreter.create(timeout=300) as interpreter:
        code_keeps_its_state(interpreter)
        print("ok", code_keeps_its_state.__name__, flush=True)
