// A Node that keeps variables between pieces of code. It runs in the box, next to the code; see docs/interpreter.md.
//
// Requests are lines of JSON on descriptor 3. Answers are frames between what the code itself writes, on descriptors 4 and 5,
// which are copies of standard output and standard error. V8's own console mode evaluates the code: there `const` may be
// declared again, and `await` stands anywhere. The session with it is within the process; no port is opened.
'use strict';
(function kernel(require, importModule) {
  const fs = require('fs');
  const util = require('util');
  const path = require('path');
  const inspector = require('inspector');
  const { Module, createRequire } = require('module');
  const moduleApi = require('module');
  const { Writable } = require('stream');
  const { pathToFileURL } = require('url');

  const [IN, OUT, ERR] = [3, 4, 5];
  const PIECE = 4096; // What a pipe takes in one piece, whoever else writes to it.
  const RESULT_MOST = 12 << 20;
  const TRACE_MOST = 32 << 10;
  const SOURCES_KEPT = 256;
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const leave = process.reallyExit.bind(process);
  const { stringify, parse } = JSON;

  function writeAll(descriptor, bytes) {
    for (let at = 0; at < bytes.length;) {
      try {
        at += fs.writeSync(descriptor, bytes, at);
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(pause, 0, 0, 1); // Somebody made the pipe non-blocking, and it is full.
      }
    }
  }

  const identity = (descriptor) => {
    const about = fs.fstatSync(descriptor);
    return `${about.dev}:${about.ino}`;
  };
  const origin = new Map([OUT, ERR].map((descriptor) => [descriptor, identity(descriptor)]));

  const escaped = (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0');
  /// The same with text that every reader takes: half of a surrogate pair is none, and is shown as its escape.
  function plain(value) {
    if (typeof value === 'string') return value.replace(/\p{Surrogate}/gu, escaped);
    if (value === null || typeof value !== 'object') return value;
    const same = {};
    Object.keys(value).forEach((name) => (same[plain(name)] = plain(value[name])));
    return same;
  }

  let marker = '';
  function send(descriptor, message) {
    // Everything but ASCII is escaped, so that a piece can be cut anywhere.
    const text = stringify(plain(message)).replace(/[\u007f-\uffff]/g, escaped);
    const room = PIECE - marker.length - 2;
    try {
      if (identity(descriptor) !== origin.get(descriptor)) leave(70);
      for (let start = 0; start < text.length; start += room) {
        const last = start + room >= text.length;
        writeAll(descriptor, Buffer.from(`${marker}${last ? '.' : '+'}${text.slice(start, start + room)}\n`, 'latin1'));
      }
    } catch {
      leave(70); // A kernel that cannot answer is of no use.
    }
  }

  // Node's own streams queue what does not fit and set the pipes to non-blocking; these wait, so that order is kept.
  class Out extends Writable {
    constructor(fd) {
      super({ decodeStrings: true, autoDestroy: false, emitClose: false });
      this.fd = fd;
      this.isTTY = false;
    }
    // Without the states of a stream: an interrupt in the middle would leave it busy for ever.
    write(chunk, encoding, done) {
      const then = typeof encoding === 'function' ? encoding : done;
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk;
      try {
        writeAll(this.fd, bytes);
      } catch { /* The code closed it. */ }
      if (typeof then === 'function') process.nextTick(then);
      return true;
    }
    // The next piece of code writes to it too.
    destroy() {
      return this;
    }
    end(chunk, encoding) {
      if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') this.write(chunk, encoding);
      return this;
    }
  }
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    const stream = new Out(fd);
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream });
  }

  // --- what is shown ---------------------------------------------------------------------------------------------------

  const state = { call: 0, settle: null, sources: new Map() };
  const inspected = (value) => util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 100000, breakLength: 100 });
  const base64 = (data) => (typeof data === 'string' ? data : Buffer.from(data).toString('base64'));
  const isJson = (type) => type === 'application/json' || type.endsWith('+json');

  function asText(type, content) {
    if (isJson(type)) return stringify(content) ?? 'null';
    if (content instanceof Uint8Array || content instanceof ArrayBuffer) return base64(content);
    return String(content);
  }

  class Shown {
    constructor(data) {
      this.data = data;
    }
  }

  function bundleOf(value) {
    let data = {};
    try {
      if (value instanceof Shown) data = { ...value.data };
      else if (value !== null && typeof value === 'object' && typeof value[Symbol.for('Jupyter.display')] === 'function') {
        for (const [type, content] of Object.entries(value[Symbol.for('Jupyter.display')]())) data[type] = asText(type, content);
      }
    } catch {
      data = {}; // What cannot be shown richly is shown as text.
    }
    if (Object.keys(data).length === 0) {
      try {
        data['text/plain'] = inspected(value);
      } catch (error) {
        data['text/plain'] = `<a value that cannot be shown: ${error && error.name}>`;
      }
    }
    return data;
  }

  function show(data, isValue) {
    const size = Object.values(data).reduce((sum, content) => sum + content.length, 0);
    if (size > RESULT_MOST) {
      const head = headOf(data['text/plain'] ?? '', 1 << 20);
      data = { 'text/plain': `${head}\n[${size} characters are more than a result may have]` };
    }
    send(OUT, { type: 'result', id: state.call, is_value: isValue, data });
  }

  const display = (...values) => values.forEach((value) => show(bundleOf(value), false));
  const as = (type, convert) => (content) => new Shown({ [type]: convert(content) });
  Object.assign(display, {
    html: as('text/html', String),
    markdown: as('text/markdown', String),
    svg: as('image/svg+xml', String),
    latex: as('text/latex', String),
    json: as('application/json', (content) => stringify(content) ?? 'null'),
    png: as('image/png', base64),
    jpeg: as('image/jpeg', base64),
    of: (data) => new Shown(Object.fromEntries(Object.entries(data).map(([type, content]) => [type, asText(type, content)]))),
  });
  // `display.html(x)` as the last expression shows it as its value; `display(display.html(x))` on the way.

  // --- the code --------------------------------------------------------------------------------------------------------

  /// Walks over code and leaves out strings, comments and regular expressions; tells the rest to `found`, which may replace it.
  function eachWord(source, found) {
    let result = '';
    let depth = 0;
    let significant = ''; // The last token that means something: after it a slash divides, or begins a regular expression.
    const templates = [];
    const copy = (end, from) => {
      result += source.slice(from, end);
      return end;
    };
    const quoted = (at, quote) => {
      let end = at + 1;
      while (end < source.length && source[end] !== quote && source[end] !== '\n') end += source[end] === '\\' ? 2 : 1;
      return end + 1;
    };
    const template = (at) => {
      for (let end = at; end < source.length; end += 1) {
        if (source[end] === '\\') end += 1;
        else if (source[end] === '`') return end + 1;
        else if (source[end] === '$' && source[end + 1] === '{') {
          templates.push(depth);
          depth += 1;
          return end + 2;
        }
      }
      return source.length;
    };
    const regular = (at) => {
      let inClass = false;
      for (let end = at + 1; end < source.length && source[end] !== '\n'; end += 1) {
        if (source[end] === '\\') end += 1;
        else if (source[end] === '[') inClass = true;
        else if (source[end] === ']') inClass = false;
        else if (source[end] === '/' && !inClass) return end + 1;
      }
      return at + 1;
    };
    for (let at = 0; at < source.length;) {
      const rest = source.slice(at, at + 2);
      const c = source[at];
      if (rest === '//') {
        const end = source.indexOf('\n', at);
        at = copy(end < 0 ? source.length : end, at);
      } else if (rest === '/*') {
        const end = source.indexOf('*/', at + 2);
        at = copy(end < 0 ? source.length : end + 2, at);
      } else if (c === '"' || c === "'") {
        at = copy(quoted(at, c), at);
        significant = ')';
      } else if (c === '`') {
        at = copy(template(at + 1), at);
        significant = ')';
      } else if (c === '/' && !/^[\w$)\]}]$|^\w\w/.test(significant)) {
        at = copy(regular(at), at);
        significant = ')';
      } else if (/[A-Za-z_$]/.test(c)) {
        let end = at;
        while (end < source.length && /[\w$]/.test(source[end])) end += 1;
        const word = source.slice(at, end);
        const replaced = significant === '.' ? null : found(word, at, end, depth);
        if (replaced) {
          result += replaced.text;
          at = replaced.end;
        } else at = copy(end, at);
        significant = /^(return|typeof|case|in|of|delete|void|throw|new|do|else|await|yield)$/.test(word) ? '' : 'word';
      } else {
        if (c === '{' || c === '(' || c === '[') depth += 1;
        if (c === '}' || c === ')' || c === ']') depth -= 1;
        at = copy(at + 1, at);
        if (c === '}' && templates.length > 0 && templates[templates.length - 1] === depth) {
          templates.pop();
          at = copy(template(at), at);
        }
        if (!/\s/.test(c)) significant = c;
      }
    }
    return result;
  }

  const bindings = (clause) => {
    const parts = clause.match(/^\s*(?:([\w$]+)\s*,?)?\s*(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?\s*$/);
    if (!parts) return null;
    const [, whole, all, named] = parts;
    return { whole, all, named: named && named.replace(/\b([\w$]+)\s+as\s+([\w$]+)/g, '$1: $2') };
  };

  /// `import(…)` goes through a function of ours, since the console mode has no loader; `import x from 'y'` becomes one.
  function withImports(source) {
    if (!/\bimport\b/.test(source)) return source;
    return eachWord(source, (word, at, end, depth) => {
      if (word !== 'import') return null;
      const rest = source.slice(end);
      if (/^\s*\(/.test(rest)) return { text: '__import', end };
      if (depth > 0) return null;
      const bare = rest.match(/^\s*(['"])([^'"\n]+)\1[ \t]*;?/);
      if (bare) return { text: `await __import(${stringify(bare[2])});`, end: end + bare[0].length };
      const from = rest.match(/^(\s[^'";]*?|\s*[{*][^'";]*?)\bfrom\s*(['"])([^'"\n]+)\2[ \t]*;?/);
      const parts = from && bindings(from[1]);
      if (!parts) return null;
      const lines = '\n'.repeat(from[0].split('\n').length - 1);
      const loaded = `await __import(${stringify(from[3])})`;
      const names = [parts.whole && `default: ${parts.whole}`, parts.named].filter(Boolean).join(', ');
      const text = parts.all
        ? `const ${parts.all} = ${loaded}${parts.whole ? `, ${parts.whole} = ${parts.all}.default` : ''};`
        : `const { ${names} } = ${loaded};`;
      return { text: text.replace(/\n/g, ' ') + lines, end: end + from[0].length };
    });
  }

  /// TypeScript without its types: by Node itself, or by what is installed beside the code.
  function withoutTypes(source) {
    if (typeof moduleApi.stripTypeScriptTypes === 'function') {
      const { emitWarning } = process;
      process.emitWarning = () => {}; // That it is experimental is no concern of the code's.
      try {
        return moduleApi.stripTypeScriptTypes(source);
      } catch (error) {
        if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
        return moduleApi.stripTypeScriptTypes(source, { mode: 'transform' });
      } finally {
        process.emitWarning = emitWarning;
      }
    }
    const typescript = load('typescript');
    const options = { target: typescript.ScriptTarget.ES2022, module: typescript.ModuleKind.ESNext };
    return typescript.transpileModule(source, { compilerOptions: options }).outputText;
  }

  function canTypes() {
    if (typeof moduleApi.stripTypeScriptTypes === 'function') return true;
    try {
      load.resolve('typescript');
      return true;
    } catch {
      return false;
    }
  }

  let script; // The full path of code that has a name: what is beside it is found, as for a script.
  const here = () => script ?? path.join(process.cwd(), 'code.js');
  const load = createRequire(here());
  const importFrom = (specifier) => {
    const text = String(specifier);
    // Relative to the working directory, like `require` here.
    if (/^\.{0,2}\//.test(text)) return importModule(new URL(text, pathToFileURL(here())).href);
    try {
      const found = createRequire(here()).resolve(text);
      return importModule(path.isAbsolute(found) ? pathToFileURL(found).href : found);
    } catch {
      return importModule(text);
    }
  };
  Object.assign(globalThis, { require: load, module: new Module('code'), exports: {}, __dirname: process.cwd() });
  for (const [name, value] of [['display', display], ['__import', importFrom]]) {
    Object.defineProperty(globalThis, name, { configurable: true, writable: true, enumerable: false, value });
  }

  // --- how it ends -----------------------------------------------------------------------------------------------------

  // Neither cuts a character in two.
  const headOf = (text, most) => text.slice(0, most).replace(/[\ud800-\udbff]$/, '');
  const tailOf = (text, most) => text.slice(-most).replace(/^[\udc00-\udfff]/, '');
  const shortened = (text, most) =>
    text.length <= most
      ? text
      : `${headOf(text, most / 2)}\n[${text.length - most} characters are left out]\n${tailOf(text, most / 2)}`;

  function line(name, number, column) {
    const source = state.sources.get(name);
    const text = source === undefined ? undefined : source.split('\n')[number - 1];
    if (text === undefined || text.length > 500) return '';
    return `${name}:${number}\n${text}\n${' '.repeat(Math.max(column - 1, 0))}^\n`;
  }

  function trace(error, details) {
    let stack = '';
    try {
      stack = String(error.stack);
    } catch {
      stack = 'an error whose stack cannot be read';
    }
    const lines = stack.split('\n');
    const ours = lines.findIndex((text) => /^\s+at .*(node:inspector|hotcell-kernel)/.test(text));
    const kept = (ours < 0 ? lines : lines.slice(0, ours)).join('\n');
    const place = kept.match(/\b(code-\d+\.js):(\d+):(\d+)/);
    if (place) return `${line(place[1], Number(place[2]), Number(place[3]))}\n${kept}`;
    if (details && error instanceof SyntaxError) {
      return `${line(`code-${state.call}.js`, details.lineNumber + 1, details.columnNumber + 1)}\n${kept}`;
    }
    return kept;
  }

  function raised(error, details) {
    if (!(error instanceof Error)) {
      const shown = shortened(inspected(error), TRACE_MOST);
      return { name: 'Uncaught', message: shown, traceback: `Uncaught ${shown}` };
    }
    return {
      name: String(error.name),
      message: shortened(String(error.message), TRACE_MOST),
      traceback: shortened(trace(error, details), TRACE_MOST),
    };
  }

  function missing(error) {
    if (!error || !/^(ERR_)?MODULE_NOT_FOUND$/.test(error.code)) return null;
    const found = String(error.message).match(/^Cannot find (?:module|package) '([^'./][^']*)'/);
    if (!found) return null;
    return found[1].split('/').slice(0, found[1].startsWith('@') ? 2 : 1).join('/');
  }

  class Exit extends Error {}

  const session = new inspector.Session();
  session.connect();
  const post = (method, parameters) =>
    new Promise((resolve, reject) =>
      session.post(method, parameters, (error, result) => (error ? reject(error) : resolve(result))));
  let holder;

  /// The value that the session holds, as a value of ours.
  async function value(remote) {
    const argument = remote.objectId !== undefined ? { objectId: remote.objectId }
      : remote.unserializableValue !== undefined ? { unserializableValue: remote.unserializableValue }
        : { value: remote.value };
    await post('Runtime.callFunctionOn', {
      objectId: holder, functionDeclaration: 'function (value) { this.value = value; }', arguments: [argument], silent: true,
    });
    const { value: taken } = hand;
    hand.value = undefined;
    return taken;
  }
  const hand = { value: undefined };

  async function evaluate(source, isTypeScript) {
    const name = `code-${state.call}.js`;
    state.sources.set(name, source);
    state.sources.delete(`code-${state.call - SOURCES_KEPT}.js`);
    let code = source;
    try {
      code = withImports(isTypeScript ? withoutTypes(source) : source);
    } catch (error) {
      return { status: 'failed', exit_code: 1, exception: raised(error) };
    }
    // As people mean it: a text that begins with a brace and is an expression is an object.
    if (/^\s*\{/.test(code) && !/;\s*$/.test(code)) {
      try {
        new Function(`return (${code}\n)`);
        code = `(${code}\n)`;
      } catch { /* It is a block. */ }
    }
    const result = await post('Runtime.evaluate', {
      expression: `${code}\n//# sourceURL=${name}`, replMode: true, awaitPromise: true, silent: true, objectGroup: 'call',
    });
    const details = result.exceptionDetails;
    const taken = await value(details ? details.exception ?? {} : result.result);
    if (details) {
      if (taken instanceof Exit) return { status: taken.code ? 'failed' : 'done', exit_code: taken.code };
      return { status: 'failed', exit_code: 1, exception: raised(taken, details), missing: missing(taken) };
    }
    if (taken !== undefined) show(bundleOf(taken), true);
    return { status: 'done' };
  }

  async function execute(request) {
    state.call = request.id;
    send(OUT, { type: 'begin', id: request.id });
    const interrupted = new Promise((resolve) => (state.settle = resolve));
    let ended;
    try {
      ended = await Promise.race([evaluate(request.code, request.typescript === true), interrupted]);
    } catch (error) {
      // That is how the session says that the execution was terminated, in other words in each version.
      ended = error && error.code === 'ERR_INSPECTOR_COMMAND'
        ? { status: 'interrupted' }
        : { status: 'failed', exit_code: 1, exception: raised(error) };
    }
    state.settle = null;
    // One turn of the loop, in which rejections that nobody handled are told.
    await new Promise((resolve) => setImmediate(resolve));
    await post('Runtime.releaseObjectGroup', { objectGroup: 'call' }).catch(() => {});
    send(OUT, { ...ended, type: 'done', id: request.id });
    send(ERR, { type: 'end', id: request.id });
    return ended;
  }

  /// Runs in a thread of its own, which reads requests also while the code keeps the main one busy.
  function control() {
    const { parentPort, workerData } = require('worker_threads');
    const session = new (require('inspector').Session)();
    session.connectToMainThread();
    const input = new (require('net').Socket)({ fd: workerData.input, readable: true, writable: false });
    let pieces = [];
    let last = Promise.resolve();
    const terminate = () => new Promise((resolve) => session.post('Runtime.terminateExecution', resolve));
    const handle = async (request) => {
      if (request.interrupt !== undefined) {
        await terminate();
        // Where nothing was being executed, it is the next thing that is terminated: this message.
        parentPort.postMessage({});
      }
      parentPort.postMessage(request);
    };
    input.setEncoding('latin1');
    input.on('data', (piece) => {
      const lines = piece.split('\n');
      while (lines.length > 1) {
        const request = JSON.parse(pieces.join('') + lines.shift());
        pieces = [];
        last = last.then(() => handle(request));
      }
      pieces.push(lines[0]);
    });
    const end = () => process.reallyExit(0);
    input.on('end', end);
    input.on('error', end);
  }

  function say(what, error) {
    if (error instanceof Exit) return;
    process.stderr.write(`${what} ${raised(error).traceback}\n`);
  }

  async function start(hello) {
    marker = hello.marker;
    process.argv.splice(1);
    globalThis.__hotcell = hand;
    holder = (await post('Runtime.evaluate', { expression: '__hotcell' })).result.objectId;
    delete globalThis.__hotcell;
    send(OUT, { type: 'ready', typescript: canTypes() });
  }

  /// So many bytes, and nothing of what comes after them: that may be the code's own input. Fewer if it ends before.
  function readExactly(length) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length;) {
      try {
        const more = fs.readSync(IN, bytes, at, length - at);
        if (more === 0) return bytes.toString('latin1', 0, at);
        at += more;
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
        Atomics.wait(pause, 0, 0, 1);
      }
    }
    return bytes.toString('latin1');
  }

  function readLine() {
    for (let line = ''; ;) {
      const next = readExactly(1);
      if (next === '' || next === '\n') return line;
      line += next;
    }
  }

  async function once() {
    const hello = parse(readLine());
    const [, , , name, ...given] = process.argv;
    await start(hello);
    // As Node itself has it: the full path of a script, and nothing for code of the command line.
    if (name !== '' && name !== '-') {
      script = path.resolve(name);
      Object.assign(globalThis, { require: createRequire(script), __filename: script, __dirname: path.dirname(script) });
    }
    if (name !== '') process.argv.push(script ?? name);
    process.argv.push(...given);
    const request = readExactly(hello.once);
    fs.closeSync(IN);
    if (request.length < hello.once) return;
    const ended = await execute(parse(request));
    // Timers and servers of the code go on, as in a script; then this is the exit code.
    if (ended.exit_code) process.exitCode = ended.exit_code;
  }

  function keep() {
    process.on('uncaughtException', (error) => say('Uncaught', error));
    process.on('unhandledRejection', (error) => say('Uncaught (in promise)', error));
    process.on('SIGINT', () => {}); // The word comes through the other thread.
    process.exit = (code = process.exitCode) => {
      const exit = new Exit('process.exit');
      exit.code = Number(code ?? 0) & 0xff;
      throw exit;
    };
    const { Worker, SHARE_ENV } = require('worker_threads');
    const reader = new Worker(`(${control})()`, { eval: true, workerData: { input: IN }, env: SHARE_ENV, execArgv: [] });
    // No chain of promises: terminating an execution throws away whatever the queue of promises holds.
    const waiting = [];
    let busy = false;
    const next = async () => {
      if (busy || waiting.length === 0) return;
      busy = true;
      const request = waiting.shift();
      await (request.marker === undefined ? execute(request) : start(request));
      busy = false;
      next();
    };
    reader.on('message', (request) => {
      if (request.interrupt !== undefined) {
        if (state.settle && request.interrupt === state.call) state.settle({ status: 'interrupted' });
      } else if (request.marker !== undefined || request.code !== undefined) {
        waiting.push(request);
        next();
      }
    });
    reader.on('error', () => leave(70));
    reader.on('exit', () => leave(0));
  }

  if (process.argv[2] === 'once') once().catch(() => leave(70));
  else keep();
})
