//! redis-rs against a running server: redis-rs-client <port> <RESP 2|3>. How a client program talks with its test: ../program.py.

use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamPendingReply, StreamReadOptions, StreamReadReply};
use redis::{Client, Commands, Connection, ErrorKind, Pipeline, RedisResult};
use std::collections::HashMap;
use std::time::Duration;

const KIB: usize = 1024;

fn connection(client: &Client) -> Connection {
    let connection = client.get_connection_with_timeout(Duration::from_secs(10)).expect("a connection");
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection
}

fn connects(con: &mut Connection, protocol: &str) -> RedisResult<()> {
    let pong: String = redis::cmd("PING").query(con)?;
    assert_eq!(pong, "PONG");
    redis::cmd("CLIENT").arg("SETNAME").arg("rust-tester").exec(con)?;
    let me: String = redis::cmd("CLIENT").arg("INFO").query(con)?;
    assert!(me.contains("name=rust-tester") && me.contains(&format!("resp={protocol}")), "{me}");
    let about: redis::InfoDict = redis::cmd("INFO").query(con)?;
    assert_eq!(about.get::<String>("redis_version").unwrap(), "8.2.3");
    Ok(())
}

fn values(con: &mut Connection) -> RedisResult<()> {
    con.set_ex::<_, _, ()>("text", "a b\r\nc", 100)?;
    assert_eq!(con.get::<_, String>("text")?, "a b\r\nc");
    assert_eq!(con.get::<_, Option<String>>("missing")?, None);
    con.hset_multiple::<_, _, _, ()>("hash", &[("one", 1), ("two", 2)])?;
    assert_eq!(con.hgetall::<_, HashMap<String, i64>>("hash")?, HashMap::from([("one".into(), 1), ("two".into(), 2)]));
    con.zadd_multiple::<_, _, _, ()>("zset", &[(1.5, "a"), (2.0, "b")])?;
    assert_eq!(con.zrange_withscores::<_, Vec<(String, f64)>>("zset", 0, -1)?, [("a".into(), 1.5), ("b".into(), 2.0)]);
    assert_eq!(con.sadd::<_, _, usize>("set", &["x", "y"])?, 2);
    assert!(con.sismember::<_, _, bool>("set", "x")?);
    let wrong = con.incr::<_, _, i64>("text", 1).unwrap_err();
    assert!(wrong.to_string().contains("value is not an integer"), "{wrong}");
    assert_eq!(con.lpush::<_, _, i64>("text", "x").unwrap_err().code(), Some("WRONGTYPE"));
    Ok(())
}

fn pipelines(con: &mut Connection) -> RedisResult<()> {
    let mut pipe = Pipeline::new();
    for i in 0..1000 {
        pipe.set(format!("k{i}"), i).ignore().get(format!("k{i}"));
    }
    let back: Vec<i64> = pipe.query(con)?;
    assert_eq!(back, (0..1000).collect::<Vec<i64>>());
    assert_eq!(con.scan_match::<_, String>("k*")?.count(), 1000);
    Ok(())
}

fn transactions(con: &mut Connection, other: &mut Connection) -> RedisResult<()> {
    con.set::<_, _, ()>("balance", 10)?;
    let mut attempts = 0;
    // Tries again as long as EXEC answers null.
    let (balance, told): (i64, i64) = redis::transaction(con, &["balance"], |con, pipe| {
        attempts += 1;
        if attempts == 1 {
            other.set::<_, _, ()>("balance", 50)?;
        }
        pipe.incr("balance", 1).rpush("told", &["x", "y"]).query(con)
    })?;
    assert_eq!((attempts, balance, told), (2, 51, 2));
    Ok(())
}

fn publishes(con: &mut Connection, other: &mut Connection) -> RedisResult<()> {
    let mut listener = con.as_pubsub();
    listener.subscribe("news")?;
    listener.psubscribe("n?w*")?;
    assert_eq!(other.publish::<_, _, i64>("news", "hello")?, 2);
    assert_eq!(other.publish::<_, _, i64>("newer", "again")?, 1);
    let mut heard = Vec::new();
    for _ in 0..3 {
        let message = listener.get_message()?;
        let pattern: Option<String> = message.get_pattern()?;
        heard.push((pattern, message.get_channel_name().to_string(), message.get_payload::<String>()?));
    }
    let pattern = Some("n?w*".to_string());
    assert_eq!(heard[0], (None, "news".into(), "hello".into()));
    assert_eq!(heard[1], (pattern.clone(), "news".into(), "hello".into()));
    assert_eq!(heard[2], (pattern, "newer".into(), "again".into()));
    listener.unsubscribe("news")?;
    listener.punsubscribe("n?w*")?;
    drop(listener);
    assert_eq!(con.get::<_, String>("text")?, "a b\r\nc");
    Ok(())
}

fn waits(con: &mut Connection, client: &Client) -> RedisResult<()> {
    let mut waiter = connection(client);
    let popped = std::thread::spawn(move || {
        let popped: (String, String) = waiter.blpop("queue", 10.0).expect("an element");
        let none: Option<(String, String)> = waiter.blpop("queue", 0.05).expect("a null");
        (popped, none)
    });
    while !redis::cmd("INFO").arg("clients").query::<String>(con)?.contains("blocked_clients:1") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(con.rpush::<_, _, i64>("queue", "job")?, 1);
    assert_eq!(popped.join().unwrap(), (("queue".into(), "job".into()), None));
    assert!(!con.exists::<_, bool>("queue")?);
    Ok(())
}

fn streams(con: &mut Connection) -> RedisResult<()> {
    con.xgroup_create_mkstream::<_, _, _, ()>("jobs", "workers", "$")?;
    for id in ["1-0", "2-0", "3-0"] {
        assert_eq!(con.xadd::<_, _, _, _, String>("jobs", id, &[("n", id)])?, id);
    }
    let options = StreamReadOptions::default().group("workers", "one").count(2);
    let read: Option<StreamReadReply> = con.xread_options(&["jobs"], &[">"], &options)?;
    let entries = &read.unwrap().keys[0].ids;
    assert_eq!(entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["1-0", "2-0"]);
    assert_eq!(entries[1].get::<String>("n").as_deref(), Some("2-0"));
    assert_eq!(con.xack::<_, _, _, i64>("jobs", "workers", &["1-0"])?, 1);
    let claimed: StreamAutoClaimReply = con.xautoclaim_options("jobs", "workers", "two", 0, "0-0", StreamAutoClaimOptions::default())?;
    assert_eq!(claimed.next_stream_id, "0-0");
    assert_eq!(claimed.claimed.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["2-0"]);
    match con.xpending::<_, _, StreamPendingReply>("jobs", "workers")? {
        StreamPendingReply::Data(pending) => {
            assert_eq!((pending.count, pending.start_id.as_str(), pending.end_id.as_str()), (1, "2-0", "2-0"));
            assert_eq!((pending.consumers[0].name.as_str(), pending.consumers[0].pending), ("two", 1));
        }
        _ => panic!("nothing is pending"),
    }
    Ok(())
}

fn large_values(con: &mut Connection) -> RedisResult<()> {
    let large: Vec<u8> = (0..KIB * KIB).map(|i| (i * 31 + (i >> 8)) as u8).collect();
    con.set::<_, _, ()>("large", &large)?;
    let back: Vec<Vec<u8>> = redis::pipe().get("large").get("large").query(con)?;
    assert!(back == [large.clone(), large], "1 MiB");
    Ok(())
}

fn ask_for(what: &str, answer: &str) {
    println!("{what}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert_eq!(line, format!("{answer}\n"));
}

// A plain connection of redis-rs does not connect again by itself: its users ask the client for another.
fn reconnects(con: &mut Connection, client: &Client) -> RedisResult<()> {
    for i in 0..100 {
        assert_eq!(con.rpush::<_, _, i64>("kept", i)?, i + 1);
    }
    ask_for("kill", "killed");
    let down = redis::cmd("PING").exec(con).unwrap_err();
    assert!(down.is_connection_dropped() && down.kind() == ErrorKind::Io, "{down}");
    assert!(client.get_connection().is_err_and(|error| error.is_connection_refusal()));
    ask_for("start", "started");
    let mut con = connection(client);
    assert_eq!(con.lrange::<_, Vec<i64>>("kept", 0, -1)?, (0..100).collect::<Vec<i64>>());
    assert_eq!(con.strlen::<_, usize>("large")?, KIB * KIB);
    assert_eq!(con.get::<_, i64>("balance")?, 51);
    assert_eq!(con.rpush::<_, _, i64>("kept", 100)?, 101);
    Ok(())
}

fn main() -> RedisResult<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let client = Client::open(format!("redis://127.0.0.1:{}/?protocol=resp{}", arguments[1], arguments[2]))?;
    let (mut con, mut other) = (connection(&client), connection(&client));
    connects(&mut con, &arguments[2])?;
    values(&mut con)?;
    pipelines(&mut con)?;
    transactions(&mut con, &mut other)?;
    publishes(&mut con, &mut other)?;
    waits(&mut con, &client)?;
    streams(&mut con)?;
    large_values(&mut con)?;
    reconnects(&mut con, &client)?;
    println!("ok");
    Ok(())
}
