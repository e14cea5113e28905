// ioredis against a running server: node ioredis.mjs <node_modules> <port> <RESP 2|3>.
import assert from "node:assert/strict";
import { askFor, done, large, pinned, port, protocol, until } from "./session.mjs";

const { Redis } = pinned("ioredis");
const options = { port, protocol, connectionName: "io-tester", retryStrategy: () => 20, ...(protocol === 3 && { replyMapping: "resp3" }) };
const client = new Redis(options);
const errors = [];
client.on("error", (error) => errors.push(error));

async function connects() {
  assert.equal(await client.ping(), "PONG");
  const me = await client.client("INFO");
  assert.match(me, /name=io-tester/);
  assert.match(me, new RegExp(`resp=${protocol}`));
  assert.match(await client.info("server"), /redis_version:8\.2\.3/);
}

async function values() {
  assert.equal(await client.set("text", "a b\r\nc", "EX", 100), "OK");
  assert.equal(await client.get("text"), "a b\r\nc");
  assert.equal(await client.get("missing"), null);
  assert.equal(await client.hset("hash", { one: "1", two: "2" }), 2);
  assert.deepEqual({ ...(await client.hgetall("hash")) }, { one: "1", two: "2" });
  assert.equal(await client.zadd("zset", 1.5, "a", 2, "b"), 2);
  assert.equal(await client.zscore("zset", "a"), protocol === 3 ? 1.5 : "1.5");
  assert.deepEqual(await client.smismember("set", "x", "y"), [0, 0]);
  await assert.rejects(client.incr("text"), /ERR value is not an integer/);
  await assert.rejects(client.lpush("text", "x"), /WRONGTYPE/);
  await assert.rejects(client.call("NOSUCH", "x"), /unknown command 'NOSUCH'/);
}

async function pipelines() {
  const pipe = client.pipeline();
  for (let i = 0; i < 1000; ++i) pipe.set(`k${i}`, i).get(`k${i}`);
  const replies = await pipe.incr("text").exec();
  assert.equal(replies.length, 2001);
  for (let i = 0; i < 1000; ++i) assert.deepEqual([replies[2 * i], replies[2 * i + 1]], [[null, "OK"], [null, String(i)]]);
  assert.match(replies[2000][0].message, /not an integer/);
  const found = new Set();
  for await (const keys of client.scanStream({ match: "k*", count: 100 })) for (const key of keys) found.add(key);
  assert.equal(found.size, 1000);
}

async function transactions() {
  const other = client.duplicate();
  await client.set("balance", 10);
  await client.watch("balance");
  await other.set("balance", 50);
  assert.equal(await client.multi().incrby("balance", 1).rpush("told", "x", "y").exec(), null);
  await client.watch("balance");
  assert.deepEqual(await client.multi().incrby("balance", 1).rpush("told", "x", "y").exec(), [[null, 51], [null, 2]]);
  other.disconnect();
}

async function publishes() {
  const listener = client.duplicate();
  const heard = [];
  listener.on("message", (...told) => heard.push(told));
  listener.on("pmessage", (...told) => heard.push(told));
  assert.equal(await listener.subscribe("news"), 1);
  assert.equal(await listener.psubscribe("n?w*"), 2);
  assert.equal(await client.publish("news", "hello"), 2);
  assert.equal(await client.publish("newer", "again"), 1);
  await until(() => heard.length === 3);
  assert.deepEqual(heard, [["news", "hello"], ["n?w*", "news", "hello"], ["n?w*", "newer", "again"]]);
  await listener.unsubscribe("news"); // without names it waits for ever, whatever the server
  await listener.punsubscribe("n?w*");
  assert.equal(await listener.ping(), "PONG");
  listener.disconnect();
}

async function waits() {
  const waiter = client.duplicate();
  const popped = waiter.blpop("queue", 10);
  await until(async () => (await client.info("clients")).includes("blocked_clients:1"));
  assert.equal(await client.rpush("queue", "job"), 1);
  assert.deepEqual(await popped, ["queue", "job"]);
  assert.equal(await client.exists("queue"), 0);
  assert.equal(await waiter.blpop("queue", 0.05), null);
  waiter.disconnect();
}

async function streams() {
  assert.equal(await client.xgroup("CREATE", "jobs", "workers", "$", "MKSTREAM"), "OK");
  for (const id of ["1-0", "2-0", "3-0"]) assert.equal(await client.xadd("jobs", id, "n", id), id);
  const read = await client.xreadgroup("GROUP", "workers", "one", "COUNT", 2, "STREAMS", "jobs", ">");
  const entries = [["1-0", ["n", "1-0"]], ["2-0", ["n", "2-0"]]];
  assert.deepEqual(protocol === 3 ? Object.entries(read) : read, [["jobs", entries]]);
  assert.equal(await client.xack("jobs", "workers", "1-0"), 1);
  assert.deepEqual(await client.xautoclaim("jobs", "workers", "two", 0, "0-0"), ["0-0", [["2-0", ["n", "2-0"]]], []]);
  assert.deepEqual(await client.xpending("jobs", "workers"), [1, "2-0", "2-0", [["two", "1"]]]);
}

async function largeValues() {
  assert.equal(await client.set("large", large), "OK");
  const [first, second] = await Promise.all([client.getBuffer("large"), client.getBuffer("large")]);
  assert.ok(first.equals(large) && second.equals(large));
}

async function reconnects() {
  for (let i = 0; i < 100; ++i) assert.equal(await client.rpush("kept", i), i + 1);
  assert.deepEqual(errors, []);
  await askFor("kill", "killed");
  await until(() => client.status === "reconnecting");
  const kept = client.lrange("kept", 0, -1); // sent once the server is back
  await askFor("start", "started");
  assert.equal((await kept).length, 100);
  assert.equal(await client.strlen("large"), 1 << 20);
  assert.equal(await client.get("balance"), "51");
  assert.equal(await client.rpush("kept", 100), 101);
}

for (const step of [connects, values, pipelines, transactions, publishes, waits, streams, largeValues, reconnects]) await step();
await client.quit();
done();
