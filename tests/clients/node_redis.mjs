// node-redis against a running server: node node_redis.mjs <port> <RESP 2|3> <node_modules>. Prints "ok" at the end.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [port, protocol, modules] = process.argv.slice(2);
const { createClient } = createRequire(`${modules}/`)("redis");

const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP: Number(protocol), name: "node-tester" });
const errors = [];
client.on("error", (error) => errors.push(error));
await client.connect();

assert.equal(await client.ping(), "PONG");
assert.equal(await client.clientGetName(), "node-tester");
const me = await client.clientInfo();
assert.equal(me.name, "node-tester");
assert.equal(me.resp, Number(protocol));
assert.ok((await client.clientList()).some((c) => c.id === me.id));

assert.equal(await client.set("a", "1", { EX: 100 }), "OK");
assert.equal(await client.get("a"), "1");
assert.equal(await client.get("missing"), null);
assert.equal(await client.incr("a"), 2);
assert.ok((await client.ttl("a")) > 0);
assert.deepEqual(await client.mGet(["a", "missing"]), ["2", null]);
await assert.rejects(client.sendCommand(["NOSUCH", "x"]), /unknown command 'NOSUCH'/);

// Sent together without waiting: one pipeline.
const many = await Promise.all(Array.from({ length: 1000 }, (_, i) => client.set(`k${i}`, String(i))));
assert.ok(many.every((reply) => reply === "OK"));
const found = new Set();
for await (const keys of client.scanIterator({ MATCH: "k*", COUNT: 100 })) for (const key of keys) found.add(key);
assert.equal(found.size, 1000);

const large = "x".repeat(1_000_000);
await client.set("large", large);
assert.equal(await client.get("large"), large);

const config = await client.configGet("maxmemory*");
assert.equal(config["maxmemory-policy"], "noeviction");
assert.match(await client.info("server"), /redis_version:8\.2\.3/);
assert.equal(await client.commandCount(), (await client.command()).length);
assert.deepEqual(await client.commandGetKeys(["MSET", "x", "1", "y", "2"]), ["x", "y"]);
assert.equal((await client.commandInfo(["get"]))[0].arity, 2);

const other = client.duplicate({ database: 5 });
other.on("error", (error) => errors.push(error));
await other.connect();
assert.equal(await other.get("a"), null);
other.destroy();

assert.deepEqual(errors, []);
await client.close();
console.log("ok");
