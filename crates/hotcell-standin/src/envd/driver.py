# Runs code for the code interpreter and keeps its names. Reads one JSON object to a line from standard input, and writes
# events, one to a line, to standard output. What the code itself writes becomes events, too.
import ast
import datetime
import json
import os
import sys
import traceback

requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
nothing = os.open(os.devnull, os.O_RDWR)
for number in (0, 1, 2):
    os.dup2(nothing, number)


def emit(**event):
    events.write(json.dumps(event) + "\n")


class Stream:
    encoding = "utf-8"

    def __init__(self, kind):
        self.kind = kind
        self.waiting = ""

    def write(self, text):
        self.waiting += text
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self):
        text, self.waiting = self.waiting, ""
        if text:
            now = datetime.datetime.now(datetime.timezone.utc).isoformat()
            emit(type=self.kind, text=text, timestamp=now)

    def isatty(self):
        return False


def run(code, names):
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        if value is not None:
            emit(type="result", text=repr(value), is_main_result=True)


sys.stdout, sys.stderr = Stream("stdout"), Stream("stderr")
names = {"__name__": "__main__"}
count = 0
for line in requests:
    request = json.loads(line)
    count += 1
    emit(type="number_of_executions", execution_count=count)
    before = dict(os.environ)
    os.environ.update(request.get("env_vars") or {})
    try:
        run(request["code"], names)
    except BaseException as error:
        trace = traceback.format_exc()
        emit(type="error", name=type(error).__name__, value=str(error), traceback=trace)
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ.clear()
    os.environ.update(before)
    emit(type="end_of_execution")
