// Jedis against a running server: JedisClient <port> <RESP 2|3>. How a client program talks with its test: ../program.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.resps.Tuple;

public class JedisClient {
  private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));
  private static HostAndPort address;
  private static DefaultJedisClientConfig settings;

  static void equal(Object got, Object wanted) {
    if (!Objects.deepEquals(got, wanted)) throw new AssertionError("got " + got + ", wanted " + wanted);
  }

  static void check(boolean holds, Object what) {
    if (!holds) throw new AssertionError("does not hold: " + what);
  }

  static Exception fails(Runnable call) {
    try {
      call.run();
    } catch (Exception error) {
      return error;
    }
    throw new AssertionError("no error");
  }

  static Jedis another() {
    return new Jedis(address, settings);
  }

  static void connects(Jedis jedis, String protocol) {
    equal(jedis.ping(), "PONG");
    equal(jedis.clientGetname(), "jedis-tester");
    String me = jedis.clientInfo();
    check(me.contains("resp=" + protocol) && me.contains("lib-name=jedis"), me);
    check(jedis.info("server").contains("redis_version:8.2.3"), "version");
    equal(jedis.configGet("maxmemory-policy"), Map.of("maxmemory-policy", "noeviction"));
    check(jedis.commandDocs("get").containsKey("get"), "COMMAND DOCS");
  }

  static void values(Jedis jedis) {
    equal(jedis.set("text", "a b\r\nc", SetParams.setParams().ex(100)), "OK");
    equal(jedis.get("text"), "a b\r\nc");
    equal(jedis.get("missing"), null);
    equal(jedis.hset("hash", Map.of("one", "1", "two", "2")), 2L);
    equal(jedis.hgetAll("hash"), Map.of("one", "1", "two", "2"));
    equal(jedis.zadd("zset", Map.of("a", 1.5, "b", 2.0)), 2L);
    equal(jedis.zrangeWithScores("zset", 0, -1), List.of(new Tuple("a", 1.5), new Tuple("b", 2.0)));
    equal(jedis.zscore("zset", "a"), 1.5);
    jedis.sadd("set", "x");
    equal(jedis.smismember("set", "x", "z"), List.of(true, false));
    check(fails(() -> jedis.incr("text")).getMessage().startsWith("ERR value is not an integer"), "INCR of text");
    check(fails(() -> jedis.lpush("text", "x")).getMessage().startsWith("WRONGTYPE"), "LPUSH to text");
  }

  static void pipelines(Jedis jedis) {
    Pipeline pipe = jedis.pipelined();
    List<Response<String>> gets = new ArrayList<>();
    Response<Long> wrong = null;
    for (int i = 0; i < 1000; ++i) {
      pipe.set("k" + i, String.valueOf(i));
      if (i == 500) wrong = pipe.incr("text");
      gets.add(pipe.get("k" + i));
    }
    pipe.sync();
    for (int i = 0; i < 1000; ++i) equal(gets.get(i).get(), String.valueOf(i));
    check(fails(wrong::get) instanceof JedisDataException, "INCR of text in a pipeline");
  }

  static void transactions(Jedis jedis) {
    jedis.set("balance", "10");
    try (Jedis other = another()) {
      for (int attempt = 0; attempt < 2; ++attempt) {
        jedis.watch("balance");
        if (attempt == 0) other.set("balance", "50");
        Transaction transaction = jedis.multi();
        Response<Long> balance = transaction.incrBy("balance", 1);
        transaction.rpush("told", "x", "y");
        List<Object> done = transaction.exec();
        equal(done, attempt == 0 ? null : List.of(51L, 2L));
        if (attempt == 1) equal(balance.get(), 51L);
      }
    }
  }

  static void publishes(Jedis jedis) throws Exception {
    List<String> heard = new ArrayList<>();
    CompletableFuture<Void> ready = new CompletableFuture<>();
    JedisPubSub listener = new JedisPubSub() {
      @Override
      public void onSubscribe(String channel, int count) {
        psubscribe("n?w*");
      }

      @Override
      public void onPSubscribe(String pattern, int count) {
        ready.complete(null);
      }

      @Override
      public void onMessage(String channel, String message) {
        heard.add(channel + " " + message);
      }

      @Override
      public void onPMessage(String pattern, String channel, String message) {
        heard.add(pattern + " " + channel + " " + message);
        if (message.equals("again")) {
          unsubscribe();
          punsubscribe();
        }
      }
    };
    CompletableFuture<Void> listening = CompletableFuture.runAsync(() -> {
      try (Jedis connection = another()) {
        connection.subscribe(listener, "news");
        equal(connection.get("text"), "a b\r\nc");
      }
    });
    ready.get();
    equal(jedis.publish("news", "hello"), 2L);
    equal(jedis.publish("newer", "again"), 1L);
    listening.get();
    equal(heard, List.of("news hello", "n?w* news hello", "n?w* newer again"));
  }

  static void waits(Jedis jedis) throws Exception {
    CompletableFuture<List<String>> popped = CompletableFuture.supplyAsync(() -> {
      try (Jedis waiter = another()) {
        return waiter.blpop(10, "queue");
      }
    });
    while (!jedis.info("clients").contains("blocked_clients:1")) Thread.sleep(1);
    equal(jedis.rpush("queue", "job"), 1L);
    equal(popped.get(), List.of("queue", "job"));
    equal(jedis.exists("queue"), false);
    equal(jedis.blpop(0.05, "queue"), null);
  }

  static void streams(Jedis jedis) {
    equal(jedis.xgroupCreate("jobs", "workers", new StreamEntryID("0-0"), true), "OK");
    for (int i = 1; i <= 3; ++i) {
      StreamEntryID id = new StreamEntryID(i, 0);
      equal(jedis.xadd("jobs", XAddParams.xAddParams().id(id), Map.of("n", String.valueOf(i))), id);
    }
    List<Map.Entry<String, List<StreamEntry>>> read = jedis.xreadGroup(
        "workers", "one", XReadGroupParams.xReadGroupParams().count(2), Map.of("jobs", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
    equal(read.get(0).getKey(), "jobs");
    equal(read.get(0).getValue().size(), 2);
    equal(read.get(0).getValue().get(1).getFields(), Map.of("n", "2"));
    equal(jedis.xack("jobs", "workers", new StreamEntryID(1, 0)), 1L);
    Map.Entry<StreamEntryID, List<StreamEntry>> claimed =
        jedis.xautoclaim("jobs", "workers", "two", 0, new StreamEntryID("0-0"), XAutoClaimParams.xAutoClaimParams());
    equal(claimed.getKey(), new StreamEntryID("0-0"));
    equal(claimed.getValue().size(), 1);
    equal(claimed.getValue().get(0).getID(), new StreamEntryID(2, 0));
    equal(jedis.xpending("jobs", "workers").getConsumerMessageCount(), Map.of("two", 1L));
    equal(jedis.xinfoGroups("jobs").get(0).getName(), "workers");
  }

  static void largeValues(Jedis jedis) {
    byte[] key = "large".getBytes(), large = new byte[1 << 20];
    for (int i = 0; i < large.length; ++i) large[i] = (byte) (i * 31 + (i >> 8));
    equal(jedis.set(key, large), "OK");
    AbstractPipeline pipe = jedis.pipelined();
    Response<byte[]> first = pipe.get(key), second = pipe.get(key);
    pipe.sync();
    check(Arrays.equals(first.get(), large) && Arrays.equals(second.get(), large), "1 MiB");
  }

  static void askFor(String what, String answer) throws Exception {
    System.out.println(what);
    equal(INPUT.readLine(), answer);
  }

  static void reconnects() throws Exception {
    try (RedisClient client = RedisClient.builder().hostAndPort(address).clientConfig(settings).build()) {
      for (int i = 0; i < 100; ++i) equal(client.rpush("kept", String.valueOf(i)), (long) i + 1);
      askFor("kill", "killed");
      check(fails(client::ping) instanceof JedisConnectionException, "an error while the server is down");
      askFor("start", "started");
      equal(client.lrange("kept", 0, -1).size(), 100);
      equal(client.strlen("large"), 1L << 20);
      equal(client.get("balance"), "51");
      equal(client.rpush("kept", "100"), 101L);
    }
  }

  public static void main(String[] arguments) throws Exception {
    address = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
    settings = DefaultJedisClientConfig.builder().clientName("jedis-tester")
        .protocol(arguments[1].equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2).build();
    try (Jedis jedis = another()) {
      connects(jedis, arguments[1]);
      values(jedis);
      pipelines(jedis);
      transactions(jedis);
      publishes(jedis);
      waits(jedis);
      streams(jedis);
      largeValues(jedis);
    }
    reconnects();
    System.out.println("ok");
  }
}
