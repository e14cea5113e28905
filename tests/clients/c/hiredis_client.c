/* hiredis against a running server: hiredis_client <port> <RESP 2>. How a client program talks with its test: program.py. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

static int port;

static redisContext *open_connection(void) {
  struct timeval patience = {10, 0};
  redisContext *context = redisConnectWithTimeout("127.0.0.1", port, patience);
  CHECK(context && !context->err);
  CHECK(redisSetTimeout(context, patience) == REDIS_OK);
  return context;
}

/* The next reply of commands that were appended. */
static redisReply *next_reply(redisContext *context) {
  void *reply = NULL;
  if (redisGetReply(context, &reply) != REDIS_OK) {
    fprintf(stderr, "no reply: %s\n", context->errstr);
    exit(1);
  }
  return reply;
}

static void expect_text(redisReply *reply, int type, const char *text) {
  CHECK(reply && reply->type == type);
  CHECK(strcmp(reply->str, text) == 0);
}

static void expect_integer(redisReply *reply, long long value) {
  CHECK(reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == value);
  freeReplyObject(reply);
}

static void expect_status(redisReply *reply, const char *text) {
  expect_text(reply, REDIS_REPLY_STATUS, text);
  freeReplyObject(reply);
}

static void expect_string(redisReply *reply, const char *text) {
  expect_text(reply, REDIS_REPLY_STRING, text);
  freeReplyObject(reply);
}

static void expect_error(redisReply *reply, const char *start) {
  CHECK(reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, start, strlen(start)) == 0);
  freeReplyObject(reply);
}

/* Sends what was appended and waits for no reply. */
static void flush(redisContext *context) {
  int done = 0;
  while (!done) CHECK(redisBufferWrite(context, &done) == REDIS_OK);
}

static void connects(redisContext *context) {
  expect_status(redisCommand(context, "PING"), "PONG");
  expect_status(redisCommand(context, "CLIENT SETNAME hiredis-tester"), "OK");
  redisReply *me = redisCommand(context, "CLIENT INFO");
  CHECK(me->type == REDIS_REPLY_STRING && strstr(me->str, "name=hiredis-tester") && strstr(me->str, "resp=2"));
  freeReplyObject(me);
}

static void values(redisContext *context) {
  expect_status(redisCommand(context, "SET %s %s EX 100", "text", "a b\r\nc"), "OK");
  expect_string(redisCommand(context, "GET text"), "a b\r\nc");
  redisReply *missing = redisCommand(context, "GET missing");
  CHECK(missing->type == REDIS_REPLY_NIL);
  freeReplyObject(missing);
  expect_integer(redisCommand(context, "HSET hash one 1 two 2"), 2);
  redisReply *hash = redisCommand(context, "HGETALL hash");
  CHECK(hash->type == REDIS_REPLY_ARRAY && hash->elements == 4);
  freeReplyObject(hash);
  expect_integer(redisCommand(context, "ZADD zset 1.5 a 2 b"), 2);
  expect_string(redisCommand(context, "ZSCORE zset a"), "1.5");
  expect_error(redisCommand(context, "INCR text"), "ERR value is not an integer");
  expect_error(redisCommand(context, "LPUSH text x"), "WRONGTYPE");
}

static void pipelines(redisContext *context) {
  for (int i = 0; i < 1000; ++i) {
    CHECK(redisAppendCommand(context, "SET k%d %d", i, i) == REDIS_OK);
    if (i == 500) CHECK(redisAppendCommand(context, "NOSUCH") == REDIS_OK);
    CHECK(redisAppendCommand(context, "GET k%d", i) == REDIS_OK);
  }
  for (int i = 0; i < 1000; ++i) {
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%d", i);
    expect_status(next_reply(context), "OK");
    if (i == 500) expect_error(next_reply(context), "ERR unknown command");
    expect_string(next_reply(context), wanted);
  }
}

static void transactions(redisContext *context) {
  redisContext *other = open_connection();
  expect_status(redisCommand(context, "SET balance 10"), "OK");
  for (int attempt = 0; attempt < 2; ++attempt) {
    expect_status(redisCommand(context, "WATCH balance"), "OK");
    if (attempt == 0) expect_status(redisCommand(other, "SET balance 50"), "OK");
    expect_status(redisCommand(context, "MULTI"), "OK");
    expect_status(redisCommand(context, "INCRBY balance 1"), "QUEUED");
    expect_status(redisCommand(context, "RPUSH told x y"), "QUEUED");
    redisReply *done = redisCommand(context, "EXEC");
    if (attempt == 0) {
      CHECK(done->type == REDIS_REPLY_NIL);
    } else {
      CHECK(done->type == REDIS_REPLY_ARRAY && done->elements == 2);
      CHECK(done->element[0]->integer == 51 && done->element[1]->integer == 2);
    }
    freeReplyObject(done);
  }
  redisFree(other);
}

static void expect_words(redisReply *reply, size_t count, const char **words) {
  CHECK(reply->type == REDIS_REPLY_ARRAY && reply->elements == count);
  for (size_t i = 0; i < count; ++i)
    if (words[i]) CHECK(reply->element[i]->type == REDIS_REPLY_STRING && strcmp(reply->element[i]->str, words[i]) == 0);
  freeReplyObject(reply);
}

static void publishes(redisContext *context) {
  redisContext *listener = open_connection();
  CHECK(redisAppendCommand(listener, "SUBSCRIBE news") == REDIS_OK);
  CHECK(redisAppendCommand(listener, "PSUBSCRIBE n?w*") == REDIS_OK);
  expect_words(next_reply(listener), 3, (const char *[]){"subscribe", "news", NULL});
  expect_words(next_reply(listener), 3, (const char *[]){"psubscribe", "n?w*", NULL});
  expect_integer(redisCommand(context, "PUBLISH news hello"), 2);
  expect_integer(redisCommand(context, "PUBLISH newer again"), 1);
  expect_words(next_reply(listener), 3, (const char *[]){"message", "news", "hello"});
  expect_words(next_reply(listener), 4, (const char *[]){"pmessage", "n?w*", "news", "hello"});
  expect_words(next_reply(listener), 4, (const char *[]){"pmessage", "n?w*", "newer", "again"});
  redisFree(listener);
}

static void waits(redisContext *context) {
  redisContext *waiter = open_connection();
  CHECK(redisAppendCommand(waiter, "BLPOP queue 10") == REDIS_OK);
  flush(waiter);
  for (int blocked = 0; !blocked;) {
    redisReply *clients = redisCommand(context, "INFO clients");
    blocked = strstr(clients->str, "blocked_clients:1") != NULL;
    freeReplyObject(clients);
  }
  expect_integer(redisCommand(context, "RPUSH queue job"), 1);
  expect_words(next_reply(waiter), 2, (const char *[]){"queue", "job"});
  expect_integer(redisCommand(context, "EXISTS queue"), 0);
  redisReply *none = redisCommand(waiter, "BLPOP queue 0.05");
  CHECK(none->type == REDIS_REPLY_NIL);
  freeReplyObject(none);
  redisFree(waiter);
}

static void streams(redisContext *context) {
  expect_status(redisCommand(context, "XGROUP CREATE jobs workers $ MKSTREAM"), "OK");
  for (int i = 1; i <= 3; ++i) expect_string(redisCommand(context, "XADD jobs %d-0 n %d", i, i), (const char *[]){"", "1-0", "2-0", "3-0"}[i]);
  redisReply *read = redisCommand(context, "XREADGROUP GROUP workers one COUNT 2 STREAMS jobs >");
  CHECK(read->type == REDIS_REPLY_ARRAY && read->elements == 1 && read->element[0]->element[1]->elements == 2);
  freeReplyObject(read);
  expect_integer(redisCommand(context, "XACK jobs workers 1-0"), 1);
  redisReply *claimed = redisCommand(context, "XAUTOCLAIM jobs workers two 0 0-0");
  CHECK(claimed->type == REDIS_REPLY_ARRAY && claimed->elements == 3 && claimed->element[1]->elements == 1);
  expect_text(claimed->element[1]->element[0]->element[0], REDIS_REPLY_STRING, "2-0");
  freeReplyObject(claimed);
  redisReply *pending = redisCommand(context, "XPENDING jobs workers");
  CHECK(pending->element[0]->integer == 1 && strcmp(pending->element[3]->element[0]->element[0]->str, "two") == 0);
  freeReplyObject(pending);
}

static void large_values(redisContext *context) {
  const size_t size = 1 << 20;
  unsigned char *bytes = malloc(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = (unsigned char)(i * 31 + (i >> 8));
  expect_status(redisCommand(context, "SET large %b", bytes, size), "OK");
  for (int i = 0; i < 3; ++i) CHECK(redisAppendCommand(context, "GET large") == REDIS_OK);
  for (int i = 0; i < 3; ++i) {
    redisReply *back = next_reply(context);
    CHECK(back->type == REDIS_REPLY_STRING && (size_t)back->len == size && memcmp(back->str, bytes, size) == 0);
    freeReplyObject(back);
  }
  free(bytes);
}

static void ask_for(const char *what, const char *answer) {
  char line[64];
  printf("%s\n", what);
  fflush(stdout);
  CHECK(fgets(line, sizeof line, stdin) && strncmp(line, answer, strlen(answer)) == 0);
}

static void reconnects(redisContext *context) {
  for (int i = 0; i < 100; ++i) expect_integer(redisCommand(context, "RPUSH kept %d", i), i + 1);
  ask_for("kill", "killed");
  CHECK(redisCommand(context, "PING") == NULL && context->err);
  CHECK(redisReconnect(context) == REDIS_ERR);
  ask_for("start", "started");
  CHECK(redisReconnect(context) == REDIS_OK);
  expect_integer(redisCommand(context, "LLEN kept"), 100);
  expect_integer(redisCommand(context, "STRLEN large"), 1 << 20);
  expect_string(redisCommand(context, "GET balance"), "51");
  expect_integer(redisCommand(context, "RPUSH kept 100"), 101);
}

int main(int count, char **arguments) {
  CHECK(count == 3 && strcmp(arguments[2], "2") == 0);
  port = atoi(arguments[1]);
  redisContext *context = open_connection();
  connects(context);
  values(context);
  pipelines(context);
  transactions(context);
  publishes(context);
  waits(context);
  streams(context);
  large_values(context);
  reconnects(context);
  redisFree(context);
  puts("ok");
  return 0;
}
