// go-redis against a running server: go_client <port> <RESP 2|3>. How a client program talks with its test: program.py.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx   = context.Background()
	input = bufio.NewReader(os.Stdin)
)

func check(holds bool, what ...any) {
	if !holds {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintln(os.Stderr, append([]any{fmt.Sprintf("%s:%d: does not hold:", file, line)}, what...)...)
		os.Exit(1)
	}
}

func equal(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: got %#v, wanted %#v\n", file, line, got, wanted)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", file, line, err)
		os.Exit(1)
	}
	return value
}

func connects(client *redis.Client, protocol int) {
	equal(must(client.Ping(ctx).Result()), "PONG")
	me := must(client.ClientInfo(ctx).Result())
	equal(me.Name, "go-tester")
	equal(me.Resp, protocol)
	equal(strings.HasPrefix(me.LibName, "go-redis"), true)
	check(strings.Contains(must(client.Info(ctx, "server").Result()), "redis_version:8.2.3"), "version")
	commands := must(client.Command(ctx).Result())
	equal(int(commands["get"].Arity), 2)
	equal(must(client.ConfigGet(ctx, "maxmemory-policy").Result()), map[string]string{"maxmemory-policy": "noeviction"})
}

func values(client *redis.Client) {
	equal(must(client.Set(ctx, "text", "a b\r\nc", 100*time.Second).Result()), "OK")
	equal(must(client.Get(ctx, "text").Result()), "a b\r\nc")
	check(must(client.TTL(ctx, "text").Result()) > 90*time.Second, "time to live")
	equal(client.Get(ctx, "missing").Err(), redis.Nil)
	equal(must(client.HSet(ctx, "hash", "one", "1", "two", "2").Result()), int64(2))
	equal(must(client.HGetAll(ctx, "hash").Result()), map[string]string{"one": "1", "two": "2"})
	equal(must(client.ZAdd(ctx, "zset", redis.Z{Score: 1.5, Member: "a"}, redis.Z{Score: 2, Member: "b"}).Result()), int64(2))
	equal(must(client.ZRangeWithScores(ctx, "zset", 0, -1).Result()), []redis.Z{{Score: 1.5, Member: "a"}, {Score: 2, Member: "b"}})
	equal(must(client.ZScore(ctx, "zset", "a").Result()), 1.5)
	equal(must(client.SAdd(ctx, "set", "x", "y").Result()), int64(2))
	equal(must(client.SMIsMember(ctx, "set", "x", "z").Result()), []bool{true, false})
	equal(must(client.IncrByFloat(ctx, "float", 1.25).Result()), 1.25)
	check(strings.HasPrefix(client.Incr(ctx, "text").Err().Error(), "ERR value is not an integer"), "INCR of text")
	check(strings.HasPrefix(client.LPush(ctx, "text", "x").Err().Error(), "WRONGTYPE"), "LPUSH to text")
}

func pipelines(client *redis.Client) {
	pipe := client.Pipeline()
	gets := make([]*redis.StringCmd, 1000)
	for i := range gets {
		pipe.Set(ctx, "k"+strconv.Itoa(i), i, 0)
		if i == 500 {
			pipe.Do(ctx, "NOSUCH")
		}
		gets[i] = pipe.Get(ctx, "k"+strconv.Itoa(i))
	}
	_, err := pipe.Exec(ctx)
	check(err != nil && strings.HasPrefix(err.Error(), "ERR unknown command"), err)
	for i, get := range gets {
		equal(must(get.Int()), i)
	}
	found := 0
	for keys := client.Scan(ctx, 0, "k*", 100).Iterator(); keys.Next(ctx); {
		found++
	}
	equal(found, 1000)
}

func transactions(client *redis.Client) {
	equal(must(client.Set(ctx, "balance", 10, 0).Result()), "OK")
	for attempt := 0; attempt < 2; attempt++ {
		var balance *redis.IntCmd
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			if attempt == 0 {
				must(client.Set(ctx, "balance", 50, 0).Result())
			}
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				balance = pipe.IncrBy(ctx, "balance", 1)
				pipe.RPush(ctx, "told", "x", "y")
				return nil
			})
			return err
		}, "balance")
		if attempt == 0 {
			equal(err, redis.TxFailedErr)
		} else {
			must(0, err)
			equal(balance.Val(), int64(51))
		}
	}
	equal(must(client.LLen(ctx, "told").Result()), int64(2))
}

func publishes(client *redis.Client) {
	listener := client.Subscribe(ctx, "news")
	must(listener.Receive(ctx))
	must(0, listener.PSubscribe(ctx, "n?w*"))
	must(listener.Receive(ctx))
	equal(must(client.Publish(ctx, "news", "hello").Result()), int64(2))
	equal(must(client.Publish(ctx, "newer", "again").Result()), int64(1))
	equal(must(listener.ReceiveMessage(ctx)), &redis.Message{Channel: "news", Payload: "hello"})
	equal(must(listener.ReceiveMessage(ctx)), &redis.Message{Channel: "news", Pattern: "n?w*", Payload: "hello"})
	equal(must(listener.ReceiveMessage(ctx)), &redis.Message{Channel: "newer", Pattern: "n?w*", Payload: "again"})
	must(0, listener.Close())
}

func waits(client *redis.Client) {
	popped := make(chan []string)
	go func() { popped <- must(client.BLPop(ctx, 10*time.Second, "queue").Result()) }()
	for !strings.Contains(must(client.Info(ctx, "clients").Result()), "blocked_clients:1") {
		time.Sleep(time.Millisecond)
	}
	equal(must(client.RPush(ctx, "queue", "job").Result()), int64(1))
	equal(<-popped, []string{"queue", "job"})
	equal(must(client.Exists(ctx, "queue").Result()), int64(0))
	equal(client.BLPop(ctx, time.Second, "queue").Err(), redis.Nil)
}

func streams(client *redis.Client) {
	equal(must(client.XGroupCreateMkStream(ctx, "jobs", "workers", "$").Result()), "OK")
	for _, id := range []string{"1-0", "2-0", "3-0"} {
		equal(must(client.XAdd(ctx, &redis.XAddArgs{Stream: "jobs", ID: id, Values: []string{"n", id}}).Result()), id)
	}
	read := must(client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "one", Count: 2, Streams: []string{"jobs", ">"}}).Result())
	equal(read, []redis.XStream{{Stream: "jobs", Messages: []redis.XMessage{
		{ID: "1-0", Values: map[string]any{"n": "1-0"}}, {ID: "2-0", Values: map[string]any{"n": "2-0"}}}}})
	equal(must(client.XAck(ctx, "jobs", "workers", "1-0").Result()), int64(1))
	claimed, next, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "jobs", Group: "workers", Consumer: "two", Start: "0-0"}).Result()
	must(0, err)
	equal(claimed, []redis.XMessage{{ID: "2-0", Values: map[string]any{"n": "2-0"}}})
	equal(next, "0-0")
	pending := must(client.XPending(ctx, "jobs", "workers").Result())
	equal(pending, &redis.XPending{Count: 1, Lower: "2-0", Higher: "2-0", Consumers: map[string]int64{"two": 1}})
	groups := must(client.XInfoGroups(ctx, "jobs").Result())
	equal(len(groups), 1)
	equal(groups[0].Lag, int64(1))
	equal(must(client.XInfoStreamFull(ctx, "jobs", 0).Result()).Length, int64(3))
}

func largeValues(client *redis.Client) {
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(i*31 + i>>8)
	}
	equal(must(client.Set(ctx, "large", large, 0).Result()), "OK")
	pipe := client.Pipeline()
	first, second := pipe.Get(ctx, "large"), pipe.Get(ctx, "large")
	must(pipe.Exec(ctx))
	check(bytes.Equal(must(first.Bytes()), large) && bytes.Equal(must(second.Bytes()), large), "1 MiB")
}

func askFor(what, answer string) {
	fmt.Println(what)
	equal(must(input.ReadString('\n')), answer+"\n")
}

func reconnects(client *redis.Client) {
	for i := 0; i < 100; i++ {
		equal(must(client.RPush(ctx, "kept", i).Result()), int64(i+1))
	}
	askFor("kill", "killed")
	down := client.Ping(ctx).Err()
	check(down != nil && !errors.Is(down, redis.Nil), "an error while the server is down")
	askFor("start", "started")
	equal(len(must(client.LRange(ctx, "kept", 0, -1).Result())), 100)
	equal(must(client.StrLen(ctx, "large").Result()), int64(1<<20))
	equal(must(client.Get(ctx, "balance").Result()), "51")
	equal(must(client.RPush(ctx, "kept", 100).Result()), int64(101))
}

func main() {
	check(len(os.Args) == 3, "two arguments")
	protocol := must(strconv.Atoi(os.Args[2]))
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, ClientName: "go-tester"})
	connects(client, protocol)
	values(client)
	pipelines(client)
	transactions(client)
	publishes(client)
	waits(client)
	streams(client)
	largeValues(client)
	reconnects(client)
	must(0, client.Close())
	fmt.Println("ok")
}
