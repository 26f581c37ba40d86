# A Python that keeps variables between pieces of code. It runs in the box, next to the code; see docs/interpreter.md.
#
# Requests are lines of JSON on standard input. Answers are frames between what the code itself writes to standard output,
# told apart by a word that only this process and the host know. The code shares this process: nothing here protects the
# host from it, and nothing has to. What is done here for order (copies of descriptors, resets after each call) is done so that
# ordinary code cannot break its context by accident.
import sys

here = [place for place in sys.path[:1] if place == ""]
del sys.path[: len(here)]  # While this file imports, a `json.py` of the user's must not be found.
import ast, asyncio, base64, builtins, fcntl, importlib.machinery, inspect, io, json, linecache, os, signal, threading, traceback, types

sys.path[:0] = here

KERNEL_FILE = "<hotcell kernel>"
PIECE = 4096  # What a pipe takes in one piece, whoever else writes to it.
RESULT_MOST = 12 << 20
TRACEBACK_MOST = 32 << 10
SOURCES_KEPT = 256
KERNEL = os.getpid()

dumps, loads = json.dumps, json.loads
write, read, fstat, getpid, leave = os.write, os.read, os.fstat, os.getpid, os._exit
lock = threading.RLock()


def plain(value):
    """The same with text that every reader takes: half of a surrogate pair is none, and is shown as its escape."""
    if isinstance(value, str):
        return str.encode(value, "utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {plain(key): plain(content) for key, content in value.items()}
    return value


def private(descriptor):
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 64)


def identity(descriptor):
    about = fstat(descriptor)
    return about.st_dev, about.st_ino


class Channel:
    """The host's end of a stream, on a descriptor of the kernel's own."""

    def __init__(self, standard):
        self.standard = standard
        self.descriptor = private(standard)
        self.identity = identity(standard)

    def usable(self, descriptor):
        try:
            return identity(descriptor) == self.identity
        except OSError:
            return False

    def check(self):
        """A kernel whose own end was closed takes the code's; without either it is of no use."""
        if not self.usable(self.descriptor):
            if not self.usable(self.standard):
                leave(70)
            self.descriptor = private(self.standard)
        os.set_blocking(self.descriptor, True)

    def restore(self, name):
        """Puts the stream back where code closed or redirected it: each piece of code begins with its own output."""
        self.check()
        if not self.usable(self.standard):
            os.dup2(self.descriptor, self.standard)
        stream = getattr(sys, name, None)
        if getattr(stream, "closed", True) or not callable(getattr(stream, "write", None)):
            setattr(sys, name, text_stream(self.standard))

    def send(self, message):
        text = dumps(plain(message)).encode("ascii")
        room = PIECE - len(state.marker) - 2
        with lock:
            for start in range(0, len(text), room):
                last = start + room >= len(text)
                piece = state.marker + (b"." if last else b"+") + text[start : start + room] + b"\n"
                while piece:
                    try:
                        piece = piece[write(self.descriptor, piece) :]
                    except BlockingIOError:
                        os.set_blocking(self.descriptor, True)


def text_stream(descriptor):
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


class State:
    marker = b""
    call = 0
    in_code = False
    interrupted = False
    loop = None


state = State()


def on_interrupt(_signal, _frame):
    if state.in_code and getpid() == KERNEL:
        raise KeyboardInterrupt
    state.interrupted = True


class quietly:
    """Around what the kernel does while the code runs: an interrupt waits for its end."""

    def __enter__(self):
        self.before, state.in_code, state.interrupted = state.in_code, False, False

    def __exit__(self, *_):
        state.in_code = self.before
        if self.before and state.interrupted:
            state.interrupted = False
            raise KeyboardInterrupt


class Requests:
    def __init__(self):
        self.descriptor = private(0)
        self.buffer = bytearray()

    def first(self):
        """The greeting, and nothing of what comes after it: that may be the code's own input."""
        line = bytearray()
        while not line.endswith(b"\n"):
            piece = read(self.descriptor, 1)
            if not piece:
                return None
            line += piece
        return loads(line)

    def only(self, length):
        """The one request of this length."""
        while len(self.buffer) < length:
            piece = read(self.descriptor, min(length - len(self.buffer), 1 << 16))
            if not piece:
                return None
            self.buffer += piece
        os.close(self.descriptor)
        return loads(self.buffer)

    def next(self):
        while True:
            end = self.buffer.find(b"\n")
            if end >= 0:
                line = bytes(self.buffer[:end])
                del self.buffer[: end + 1]
                return loads(line)
            piece = read(self.descriptor, 1 << 16)
            if not piece:
                return None
            self.buffer += piece


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


# --- what is shown -----------------------------------------------------------------------------------------------------

RICH = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
)


def as_text(media_type, content):
    if isinstance(content, tuple) and len(content) == 2 and isinstance(content[1], dict):
        content = content[0]  # With metadata, which nobody here uses.
    if isinstance(content, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(content)).decode("ascii")
    if media_type == "application/json" or media_type.endswith("+json"):
        return dumps(content, default=repr)
    return content if isinstance(content, str) else str(content)


def bundle_of(value):
    data = {}
    if not isinstance(value, type):
        whole = getattr(value, "_repr_mimebundle_", None)
        if callable(whole):
            try:
                whole = whole()
                if isinstance(whole, tuple):
                    whole = whole[0]
                for media_type, content in dict(whole or {}).items():
                    data[str(media_type)] = as_text(str(media_type), content)
            except Exception:
                pass
        for method, media_type in RICH:
            shown = getattr(value, method, None)
            if media_type in data or not callable(shown):
                continue
            try:
                content = shown()
                if content is not None:
                    data[media_type] = as_text(media_type, content)
            except Exception:
                pass  # As in a notebook: what cannot be shown one way is shown in others.
    if "text/plain" not in data:
        try:
            data["text/plain"] = repr(value)
        except Exception as error:
            data["text/plain"] = "<%s that cannot be shown: %s>" % (type(value).__name__, type(error).__name__)
    return data


def show(data, is_value):
    if getpid() != KERNEL:
        print(data.get("text/plain", ""))
        return
    with quietly():
        flush()
        size = sum(len(content) for content in data.values())
        if size > RESULT_MOST:
            head = data.get("text/plain", "")[: 1 << 20]
            data = {"text/plain": "%s\n[%d characters are more than a result may have]" % (head, size)}
        out.send({"type": "result", "id": state.call, "is_value": is_value, "data": data})


def display(*values, raw=False, **_ignored):
    """Shows values in the richest formats that they have. With raw=True a value is a dictionary of media types."""
    for value in values:
        if raw:
            show({str(kind): as_text(str(kind), content) for kind, content in dict(value).items()}, False)
        else:
            show(bundle_of(value), False)


def show_figures(*_arguments, **_options):
    """Open figures of matplotlib are shown and closed, if the code uses it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    is_svg = pyplot.get_backend().lower() == "svg"
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        content = io.BytesIO()
        figure.savefig(content, format="svg" if is_svg else "png", bbox_inches="tight")
        content = content.getvalue()
        image = {"image/svg+xml": content.decode()} if is_svg else {"image/png": as_text("image/png", content)}
        show(dict(image, **{"text/plain": repr(figure)}), False)
    pyplot.close("all")


class ShowingFigures:
    """An import hook by which `show()` of matplotlib shows: without a screen, its own does nothing, and the next plot is drawn over the last."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            execute = found.loader.exec_module

            def exec_module(module):
                execute(module)
                module.show = show_figures

            found.loader.exec_module = exec_module
        return found


def no_input(prompt=""):
    raise EOFError("nobody is there to answer: this code has no standard input; put the value into the code")


# --- running -----------------------------------------------------------------------------------------------------------

AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def loop():
    if state.loop is None or state.loop.is_closed():
        state.loop = asyncio.new_event_loop()
    return state.loop


def complete(coroutine):
    running = loop()
    task = running.create_task(coroutine)
    try:
        return running.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            running.run_until_complete(asyncio.gather(task, return_exceptions=True))
        raise


def evaluate(code, names):
    result = eval(code, names)
    return complete(result) if code.co_flags & inspect.CO_COROUTINE else result


def compiled(source, name):
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | AWAIT, dont_inherit=True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval", AWAIT, dont_inherit=True)
    return compile(tree, name, "exec", AWAIT, dont_inherit=True), last


def shortened(text, most):
    if len(text) <= most:
        return text
    return "%s\n[%d characters are left out]\n%s" % (text[: most // 2], len(text) - most, text[-most // 2 :])


def without_kernel(told):
    while told is not None:
        told.stack[:] = [frame for frame in told.stack if frame.filename != KERNEL_FILE]
        told = told.__cause__ or told.__context__


def raised(error):
    """What the host is told of an exception: without the kernel's own frames."""
    try:
        whole = traceback.TracebackException(type(error), error, error.__traceback__)
        without_kernel(whole)
        told = "".join(whole.format())
    except Exception as second:
        told = "%s (its traceback cannot be shown: %s)" % (type(error).__name__, type(second).__name__)
    try:
        message = str(error)
    except Exception:
        message = ""
    about = {
        "name": type(error).__name__,
        "message": shortened(message, TRACEBACK_MOST),
        "traceback": shortened(told, TRACEBACK_MOST),
    }
    missing = error.name if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str) else None
    return about, missing


def exit_code(error):
    """As Python itself has it; an exit of a kind of its own may be unable to say with what."""
    try:
        code = error.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
        print(code, file=sys.stderr)
    except Exception:
        pass
    return 1


def execute(source, names):
    """Runs a piece of code; what the host is told of its end."""
    name = "<code %d>" % state.call
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    linecache.cache.pop("<code %d>" % (state.call - SOURCES_KEPT), None)
    ended = {"status": "done"}
    try:
        try:
            state.in_code = True
            if state.interrupted:
                # It came when the host knew already that this begins.
                raise KeyboardInterrupt
            body, last = compiled(source, name)
            evaluate(body, names)
            if last is not None:
                value = evaluate(last, names)
                if value is not None:
                    names["_"] = value
                    show(bundle_of(value), True)
            show_figures()
        finally:
            # In this order: whatever the code left behind must not interfere with what follows.
            state.in_code = False
            sys.settrace(None)
            sys.setprofile(None)
    except KeyboardInterrupt as error:
        ended = {"status": "interrupted", "exception": raised(error)[0]}
    except SystemExit as error:
        code = exit_code(error)
        ended = {"status": "failed" if code else "done", "exit_code": code}
    except BaseException as error:
        about, missing = raised(error)
        ended = {"status": "failed", "exit_code": 1, "exception": about, "missing": missing}
    if getpid() != KERNEL:
        # A child that the code forked and that came back here: it must not go on as a second kernel.
        if "exception" in ended:
            print(ended["exception"]["traceback"], end="", file=sys.stderr)
        flush()
        leave(ended.get("exit_code", 0))
    return ended


def main():
    requests = Requests()
    hello = requests.first()
    if hello is None:
        return 0
    state.marker = hello["marker"].encode("ascii")
    once = hello.get("once")
    sys.stdout = sys.__stdout__ = text_stream(1)
    sys.stderr = sys.__stderr__ = text_stream(2)
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, display=display)
    sys.modules["__main__"] = module
    sys.argv = sys.argv[1:] or [""]
    if sys.argv[0] not in ("", "-c", "-"):
        # As for a script: modules beside it are found, and it knows its own path.
        module.__file__ = os.path.abspath(sys.argv[0])
        sys.path[: len(here)] = [os.path.dirname(module.__file__)] * len(here)
    if not hello.get("stdin"):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        builtins.input = no_input
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.meta_path.insert(0, ShowingFigures)
    signal.signal(signal.SIGINT, on_interrupt)
    limit = sys.getrecursionlimit()
    out.send({"type": "ready"})
    while True:
        request = requests.next() if once is None else requests.only(once)
        if request is None:
            return 0
        if "code" not in request:
            continue
        state.call = request["id"]
        out.restore("stdout")
        error_out.restore("stderr")
        signal.signal(signal.SIGINT, on_interrupt)
        # What came before is of an earlier call, or is repeated when the host hears that this one begins.
        state.interrupted = False
        out.send({"type": "begin", "id": state.call})
        ended = execute(request["code"], module.__dict__)
        sys.setrecursionlimit(limit)
        out.check()
        error_out.check()
        flush()
        out.send(dict(ended, type="done", id=state.call))
        error_out.send({"type": "end", "id": state.call})
        if once is not None:
            if ended["status"] == "interrupted":
                return 130
            return ended.get("exit_code", 0)


out, error_out = Channel(1), Channel(2)
sys.exit(main())
