// What a page of another site can make a browser send to `hotcell mcp`, sent by hand.
//
// The variable HOTCELL_URL names the server, HOTCELL_TOKEN and HOTCELL_OTHER_TOKEN two of its tokens. Prints a line for each case.
// A browser lets a page send GET, HEAD and POST with a form's or a text's content type unasked; for everything else, a token or JSON
// among it, it asks first with OPTIONS, and sends nothing unless the answer grants it. It says where the page is from in Origin.

import http from "node:http";
import assert from "node:assert/strict";

const server = new URL(process.env.HOTCELL_URL);
const token = process.env.HOTCELL_TOKEN;
const otherToken = process.env.HOTCELL_OTHER_TOKEN;
const evil = "https://evil.test";

const hello = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "page", version: "1" } },
});
const own = {
  authorization: `Bearer ${token}`,
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
};

function send(method, headers, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(server, { method, headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece) => {
        text += piece;
        // A stream of a session stays open; its first event is enough.
        if (text.includes('"result"')) response.destroy();
      });
      response.on("close", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    request.on("error", reject);
    request.end(body);
  });
}

function grantsNothing(answer) {
  const granted = Object.keys(answer.headers).filter((name) => name.startsWith("access-control-"));
  assert.deepEqual(granted, []);
  assert.ok(!answer.text.includes('"result"'), answer.text);
}

const cases = {
  async "whoever has a token may call"() {
    const answer = await send("POST", own, hello);
    assert.equal(answer.status, 200, answer.text);
    assert.ok(answer.headers["mcp-session-id"] && answer.text.includes("hotcell"), answer.text);
  },

  async "a browser that asks first is told no"() {
    for (const origin of [evil, "null", `http://${server.host}`]) {
      const answer = await send("OPTIONS", {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,mcp-session-id",
        "access-control-request-private-network": "true",
      });
      assert.ok(answer.status >= 400, `${origin}: ${answer.status}`);
      grantsNothing(answer);
    }
  },

  async "what a page sends unasked is refused"() {
    const kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"];
    for (const kind of kinds) {
      const answer = await send("POST", { origin: evil, "content-type": kind }, hello);
      assert.equal(answer.status, 403, kind);
      grantsNothing(answer);
    }
    for (const method of ["GET", "HEAD"]) {
      const answer = await send(method, { origin: evil, accept: "text/event-stream" });
      assert.equal(answer.status, 403, method);
      grantsNothing(answer);
    }
  },

  async "a token does not help a page, nor a form"() {
    for (const origin of [evil, "null"]) {
      const answer = await send("POST", { ...own, origin }, hello);
      assert.equal(answer.status, 403, origin);
      grantsNothing(answer);
    }
    const answer = await send("POST", { ...own, "content-type": "text/plain" }, hello);
    assert.equal(answer.status, 415);
    grantsNothing(answer);
  },

  async "a name that was made to point here is refused"() {
    for (const host of ["evil.test", `evil.test:${server.port}`, `${server.host}.evil.test`]) {
      const answer = await send("POST", { ...own, host }, hello);
      assert.equal(answer.status, 403, host);
      grantsNothing(answer);
    }
    const answer = await send("POST", { ...own, host: `localhost:${server.port}` }, hello);
    assert.equal(answer.status, 200);
  },

  async "without a token, or with a wrong one, nothing goes"() {
    for (const authorization of [undefined, "Bearer wrong", "Bearer ", `Basic ${token}`, token]) {
      const { authorization: _, ...rest } = own;
      const answer = await send("POST", authorization === undefined ? rest : { ...rest, authorization }, hello);
      assert.equal(answer.status, 401, authorization);
      grantsNothing(answer);
    }
  },

  async "a session is its token's alone"() {
    const session = (await send("POST", own, hello)).headers["mcp-session-id"];
    const list = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/list", params: {} });
    const in_session = { ...own, "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" };
    const begun = JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" });
    assert.equal((await send("POST", in_session, begun)).status, 202);
    const foreign = { ...in_session, authorization: `Bearer ${otherToken}` };
    for (const method of ["POST", "GET", "DELETE"]) {
      const answer = await send(method, foreign, method === "POST" ? list : undefined);
      assert.equal(answer.status, 404, method);
      grantsNothing(answer);
    }
    const answer = await send("POST", in_session, list);
    assert.ok(answer.status === 200 && answer.text.includes("exec_shell"), answer.text);
    assert.ok((await send("DELETE", in_session)).status < 300);
    assert.equal((await send("POST", in_session, list)).status, 404);
  },
};

for (const [name, run] of Object.entries(cases)) {
  await run();
  console.log(`ok ${name}`);
}
