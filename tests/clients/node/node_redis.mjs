// node-redis against a running server: node node_redis.mjs <node_modules> <port> <RESP 2|3>.
import assert from "node:assert/strict";
import { askFor, done, large, pinned, port, protocol, until } from "./session.mjs";

const { createClient, RESP_TYPES, WatchError } = pinned("redis");
const socket = { host: "127.0.0.1", port, reconnectStrategy: () => 20 };
const client = createClient({ socket, RESP: protocol, name: "node-tester" });
const errors = [];
client.on("error", (error) => errors.push(error));

async function another(options = {}) {
  const connection = client.duplicate(options);
  connection.on("error", (error) => errors.push(error));
  return connection.connect();
}

async function connects() {
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.clientGetName(), "node-tester");
  const me = await client.clientInfo();
  assert.equal(me.name, "node-tester");
  assert.equal(me.resp, protocol);
  assert.ok((await client.clientList()).some((c) => c.id === me.id));
}

async function values() {
  assert.equal(await client.set("text", "a b\r\nc", { EX: 100 }), "OK");
  assert.equal(await client.get("text"), "a b\r\nc");
  assert.equal(await client.get("missing"), null);
  assert.equal(await client.incr("count"), 1);
  assert.ok((await client.ttl("text")) > 0);
  assert.deepEqual(await client.mGet(["count", "missing"]), ["1", null]);
  assert.equal(await client.hSet("hash", { one: "1", two: "2" }), 2);
  assert.deepEqual({ ...(await client.hGetAll("hash")) }, { one: "1", two: "2" });
  await client.zAdd("zset", [{ score: 1.5, value: "a" }, { score: 2, value: "b" }]);
  assert.deepEqual((await client.zRangeWithScores("zset", 0, -1)).map((m) => [m.value, m.score]), [["a", 1.5], ["b", 2]]);
  await assert.rejects(client.incr("text"), /ERR value is not an integer/);
  await assert.rejects(client.lPush("text", "x"), /WRONGTYPE/);
  await assert.rejects(client.sendCommand(["NOSUCH", "x"]), /unknown command 'NOSUCH'/);
}

async function introspects() {
  const config = await client.configGet("maxmemory*");
  assert.equal(config["maxmemory-policy"], "noeviction");
  assert.match(await client.info("server"), /redis_version:8\.2\.3/);
  assert.equal(await client.commandCount(), (await client.command()).length);
  assert.deepEqual(await client.commandGetKeys(["MSET", "x", "1", "y", "2"]), ["x", "y"]);
  assert.equal((await client.commandInfo(["get"]))[0].arity, 2);
}

async function databases() {
  const other = await another({ database: 5 });
  assert.equal(await other.get("text"), null);
  other.destroy();
}

// Sent together without waiting: one pipeline.
async function pipelines() {
  const told = await Promise.all(Array.from({ length: 1000 }, (_, i) => client.set(`k${i}`, String(i))));
  assert.ok(told.every((reply) => reply === "OK"));
  const back = await Promise.all(Array.from({ length: 1000 }, (_, i) => client.get(`k${i}`)));
  assert.ok(back.every((reply, i) => reply === String(i)));
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "k*", COUNT: 100 })) for (const key of keys) found.add(key);
  assert.equal(found.size, 1000);
}

async function transactions() {
  const other = await another();
  await client.set("balance", "10");
  await client.watch("balance");
  await other.set("balance", "50");
  await assert.rejects(client.multi().incrBy("balance", 1).rPush("told", ["x", "y"]).exec(), WatchError);
  await client.watch("balance");
  assert.deepEqual(await client.multi().incrBy("balance", 1).rPush("told", ["x", "y"]).exec(), [51, 2]);
  other.destroy();
}

async function publishes() {
  const listener = await another();
  const heard = [];
  await listener.subscribe("news", (message, channel) => heard.push(`${channel} ${message}`));
  await listener.pSubscribe("n?w*", (message, channel) => heard.push(`pattern ${channel} ${message}`));
  assert.equal(await client.publish("news", "hello"), 2);
  assert.equal(await client.publish("newer", "again"), 1);
  await until(() => heard.length === 3);
  assert.deepEqual(heard, ["news hello", "pattern news hello", "pattern newer again"]);
  await listener.unsubscribe();
  await listener.pUnsubscribe();
  assert.equal(String(await listener.ping()), "PONG"); // over RESP2 node-redis gives bytes here, whatever the server
  listener.destroy();
}

async function waits() {
  const waiter = await another();
  const popped = waiter.blPop("queue", 10);
  await until(async () => (await client.info("clients")).includes("blocked_clients:1"));
  assert.equal(await client.rPush("queue", "job"), 1);
  assert.deepEqual({ ...(await popped) }, { key: "queue", element: "job" });
  assert.equal(await client.exists("queue"), 0);
  assert.equal(await waiter.blPop("queue", 0.05), null);
  waiter.destroy();
}

const plain = (messages) => messages.map(({ id, message }) => [id, { ...message }]);

async function streams() {
  assert.equal(await client.xGroupCreate("jobs", "workers", "$", { MKSTREAM: true }), "OK");
  for (const id of ["1-0", "2-0", "3-0"]) assert.equal(await client.xAdd("jobs", id, { n: id }), id);
  const read = await client.xReadGroup("workers", "one", { key: "jobs", id: ">" }, { COUNT: 2 });
  assert.equal(read[0].name, "jobs");
  assert.deepEqual(plain(read[0].messages), [["1-0", { n: "1-0" }], ["2-0", { n: "2-0" }]]);
  assert.equal(await client.xAck("jobs", "workers", "1-0"), 1);
  const claimed = await client.xAutoClaim("jobs", "workers", "two", 0, "0-0");
  assert.equal(claimed.nextId, "0-0");
  assert.deepEqual(plain(claimed.messages), [["2-0", { n: "2-0" }]]);
  const pending = await client.xPending("jobs", "workers");
  assert.deepEqual([pending.pending, pending.firstId, pending.lastId], [1, "2-0", "2-0"]);
  assert.equal((await client.xInfoGroups("jobs"))[0].lag, 1);
}

async function largeValues() {
  assert.equal(await client.set("large", large), "OK");
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const [first, second] = await Promise.all([bytes.get("large"), bytes.get("large")]);
  assert.ok(first.equals(large) && second.equals(large));
}

async function reconnects() {
  for (let i = 0; i < 100; ++i) assert.equal(await client.rPush("kept", String(i)), i + 1);
  assert.deepEqual(errors, []);
  const lost = new Promise((resolve) => client.once("reconnecting", resolve));
  await askFor("kill", "killed");
  await lost;
  const kept = client.lRange("kept", 0, -1); // sent once the server is back
  await askFor("start", "started");
  assert.equal((await kept).length, 100);
  assert.equal(await client.strLen("large"), 1 << 20);
  assert.equal(await client.get("balance"), "51");
  assert.equal(await client.rPush("kept", "100"), 101);
}

const steps = [connects, values, introspects, databases, pipelines, transactions, publishes, waits, streams, largeValues, reconnects];
for (const step of steps) await step();
await client.close();
done();
