"""The command line of the MCP Inspector against `hotcell mcp`.

Arguments: the path of `hotcell`, and of `mcp-inspector`. Prints a line for each case. Each run of the Inspector is a connection
of its own, and so has a box of its own.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import traceback

import server

HOTCELL, INSPECTOR = sys.argv[1:3]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


# What is negotiated. Over HTTP a box belongs to a session, and the versions without a handshake have none.
NEGOTIATED = {
    ("stdio", "legacy"): "2025-11-25",
    ("stdio", "auto"): "2026-07-28",
    ("http", "legacy"): "2025-11-25",
    ("http", "auto"): "2025-11-25",
}


class Inspector:
    """One way to the server."""

    def __init__(self, transport, target, home):
        self.transport = transport
        self.target = target
        # It keeps a catalogue there otherwise.
        self.environment = {**os.environ, "HOME": home, "MCP_CATALOG_PATH": os.path.join(home, "catalogue.json")}

    def run(self, *arguments):
        # The target comes last: what follows a command is the command's.
        command = [INSPECTOR, "--cli", "--format", "json", "--quiet", *arguments, *self.target]
        return subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)

    def ask(self, method, *arguments):
        ran = self.run("--method", method, *arguments)
        assert ran.returncode == 0, (method, arguments, ran.returncode, ran.stdout[-2000:], ran.stderr[-2000:])
        answer = json.loads(ran.stdout)
        return answer.get("result", answer)

    def call(self, tool, **arguments):
        # A tool's error makes it exit with an error of its own, and print the result all the same.
        ran = self.run("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        assert ran.stdout.strip(), (tool, arguments, ran.returncode, ran.stderr[-2000:])
        answer = json.loads(ran.stdout)
        return answer.get("result", answer)


def tools_are_listed_and_their_schemas_travel(inspector, place):
    names = [tool["name"] for tool in inspector.ask("tools/list")["tools"]]
    assert {"exec_shell", "run_code", "workspace_commit"} <= set(names), names
    strict = inspector.run("--method", "tools/list", "--strict")
    assert strict.returncode == 0, (strict.returncode, strict.stderr[-4000:])


def both_eras_of_the_protocol_work(inspector, place):
    for era in ("legacy", "auto"):
        version = inspector.ask("initialize", "--protocol-era", era)["protocolVersion"]
        assert version == NEGOTIATED[inspector.transport, era], (inspector.transport, era, version)
        assert inspector.ask("tools/list", "--protocol-era", era)["tools"], era


def a_command_runs_in_a_box(inspector, place):
    result = inspector.call("exec_shell", command="echo $((6*7)); echo changed > notes.txt; cat notes.txt")
    assert not result.get("isError") and result["structuredContent"]["stdout"] == "42\nchanged\n", result
    assert (place / "notes.txt").read_text() == "first\n"


def a_denied_read_names_the_rule(inspector, place):
    result = inspector.call("read_file", path="secret.txt")
    error = result["structuredContent"]["error"]
    assert result["isError"] and "filesystem.deny" in error["rule"], result
    assert "the secret" not in json.dumps(result)


def an_image_comes_back_as_one(inspector, place):
    code = f"import base64\nclass D:\n    def _repr_png_(self): return base64.b64decode({PNG!r})\nD()"
    result = inspector.call("run_code", language="python", code=code, context="c")
    images = [block for block in result["content"] if block["type"] == "image"]
    assert [(image["mimeType"], base64.b64decode(image["data"])) for image in images] == [
        ("image/png", base64.b64decode(PNG))
    ], result


def resources_are_listed_and_read(inspector, place):
    listed = [resource["uri"] for resource in inspector.ask("resources/list")["resources"]]
    assert "hotcell://report" in listed, listed
    report = inspector.ask("resources/read", "--uri", "hotcell://report")
    assert json.loads(report["contents"][0]["text"])["isolation"] == "process", report


def a_wrong_token_is_refused(inspector, place):
    *address, _ = inspector.target
    wrong = Inspector("http", [*address, "Authorization: Bearer wrong"], inspector.environment["HOME"])
    ran = wrong.run("--method", "tools/list", "--stored-auth-only")
    assert ran.returncode != 0 and "exec_shell" not in ran.stdout, ran


CASES = [
    tools_are_listed_and_their_schemas_travel,
    both_eras_of_the_protocol_work,
    a_command_runs_in_a_box,
    a_denied_read_names_the_rule,
    an_image_comes_back_as_one,
    resources_are_listed_and_read,
]


def run(cases, inspector, place):
    """Whether any failed."""
    failed = False
    for case in cases:
        try:
            case(inspector, place)
            print("ok", inspector.transport, case.__name__, flush=True)
        except Exception:
            failed = True
            print("FAILED", inspector.transport, case.__name__, traceback.format_exc(), flush=True)
    return failed


def main():
    with tempfile.TemporaryDirectory(prefix="hotcell-inspector-") as home, server.project() as place:
        failed = run(CASES, Inspector("stdio", ["--", HOTCELL, *server.arguments(place)], home), place)
        with server.over_http(HOTCELL, place) as url:
            header = ["--transport", "http", "--server-url", url, "--header", f"Authorization: Bearer {server.TOKEN}"]
            return run([*CASES, a_wrong_token_is_refused], Inspector("http", header, home), place) or failed


sys.exit(main())
