// Keyspace notifications over a real keyspace: what is told, when, and behind which record.
#include "command/notifications.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "io/faulty_filesystem.h"
#include "storage/storage.h"

namespace pion {
namespace {

struct Heard {
  std::string channel, payload;
  Lsn required;
};

class Listener final : public Subscriber {
 public:
  explicit Listener(std::vector<Heard>& heard) : heard_(heard) {}
  void deliver(std::shared_ptr<const PublishedMessage> message, std::shared_ptr<const std::string>) override {
    std::lock_guard lock(mutex_);
    heard_.push_back({message->channel, message->payload, message->required});
  }

 private:
  std::mutex mutex_;
  std::vector<Heard>& heard_;
};

struct House {
  FaultyFileSystem files{1};
  std::unique_ptr<Storage> storage;
  std::unique_ptr<Keyspace> keyspace;
  PubSub hub;
  Notifications notifications{hub};
  std::vector<Heard> heard;
  Subscriptions mine{hub, std::make_unique<Listener>(heard)};

  explicit House(std::string_view classes) {
    storage = std::move(*Storage::open(files, {.dir = "/data"}));
    keyspace = std::make_unique<Keyspace>(*storage);
    storage->add_plane(keyspace.get());
    EXPECT_TRUE(storage->recover());
    keyspace->set_observer(&notifications);
    notifications.set_classes(*parse_event_classes(classes));
    keyspace->settings.events = wanted_events(*parse_event_classes(classes));
  }
  ~House() { storage->stop(); }

  Lsn last() { return storage->journal().appended_lsn(); }
  void set(KeyAccess& access, const Key& key) {
    EXPECT_TRUE(keyspace->admit(100, WriteKind::kGrows));
    access.set(0, key, access.find(0, key, KeyAccess::Lookup::kWrite), NewValue::from_argument("x"), 0);
    access.event(KeyEvent::kString, "set", 0, key);
  }
};

TEST(Notifications, ClassesArePrintedAsRedisPrintsThem) {
  const auto printed = [](std::string_view letters) { return format_event_classes(*parse_event_classes(letters)); };
  EXPECT_EQ(printed("gKE"), "gKE");
  EXPECT_EQ(printed("EKg$lshzxet"), "g$lshzxetKE");
  EXPECT_EQ(printed("KEg$lshzxetd"), "AKE");
  EXPECT_EQ(printed("mKEAnoc"), "AKEm");
  EXPECT_EQ(printed("co$nK"), "$nocK");
  EXPECT_EQ(printed(""), "");
  EXPECT_EQ(parse_event_classes("KEq"), std::nullopt);
  for (std::string_view letters : {"KEA", "mnocKEA", "Kx", "", "d"}) {
    EXPECT_EQ(parse_event_classes(format_event_classes(*parse_event_classes(letters), true)), parse_event_classes(letters)) << letters;
  }
  EXPECT_EQ(wanted_events(*parse_event_classes("A")), 0u);
  EXPECT_EQ(wanted_events(*parse_event_classes("Kx")), static_cast<uint32_t>(KeyEvent::kExpired));
}

TEST(Notifications, BothFormsLeaveBehindTheRecord) {
  House house("KE$n");
  house.mine.add(SubscriptionKind::kPattern, "*");
  const Key key = house.keyspace->key("k");
  KeyAccess access(*house.keyspace, key);
  house.set(access, key);
  EXPECT_TRUE(house.heard.empty()) << "told before there was a record";
  const Lsn lsn = access.finish();
  EXPECT_EQ(lsn, house.last());
  ASSERT_EQ(house.heard.size(), 4u);
  EXPECT_EQ(house.heard[0].channel, "__keyspace@0__:k");
  EXPECT_EQ(house.heard[0].payload, "new");
  EXPECT_EQ(house.heard[3].channel, "__keyevent@0__:set");
  EXPECT_EQ(house.heard[3].payload, "k");
  for (const Heard& heard : house.heard) EXPECT_EQ(heard.required, lsn);
}

TEST(Notifications, WhatIsNotWantedIsNotTold) {
  House house("El");
  const Key key = house.keyspace->key("k");
  const auto set = [&] {
    KeyAccess access(*house.keyspace, key);
    house.set(access, key);
  };
  house.mine.add(SubscriptionKind::kPattern, "*");
  set();
  house.keyspace->settings.events = 0;
  set();
  EXPECT_TRUE(house.heard.empty());
  // Nobody listens: what happened meanwhile is not told to who comes later.
  house.mine.remove(SubscriptionKind::kPattern, "*");
  house.notifications.set_classes(*parse_event_classes("EA"));
  house.keyspace->settings.events = wanted_events(*parse_event_classes("EA"));
  set();
  house.mine.add(SubscriptionKind::kChannel, "__keyevent@0__:set");
  set();
  EXPECT_EQ(house.heard.size(), 1u);
}

TEST(Notifications, AMissWaitsForTheRecordThatMadeIt) {
  House house("EmA");
  house.mine.add(SubscriptionKind::kChannel, "__keyevent@0__:keymiss");
  const Key key = house.keyspace->key("k");
  {
    KeyAccess access(*house.keyspace, key);
    house.set(access, key);
  }
  {
    KeyAccess access(*house.keyspace, key);
    access.erase(0, key, access.find(0, key));
  }
  const Lsn erased = house.last();
  KeyAccess access(*house.keyspace, key);
  EXPECT_FALSE(access.find(0, key));
  access.finish();
  ASSERT_EQ(house.heard.size(), 1u);
  EXPECT_EQ(house.heard[0].required, erased);
}

TEST(Notifications, ATransactionTellsAllAtItsEndInOrder) {
  House house("EA");
  house.mine.add(SubscriptionKind::kPattern, "*");
  const Key keys[] = {house.keyspace->key("a"), house.keyspace->key("b")};
  KeyspaceScope scope(*house.keyspace, keys);
  for (const Key& key : keys) {
    KeyAccess access(*house.keyspace, key);
    house.set(access, key);
    access.finish();
    house.notifications.publish_later(SubscriptionKind::kChannel, "news", key.bytes);
  }
  EXPECT_TRUE(house.heard.empty());
  const Lsn lsn = scope.finish();
  ASSERT_EQ(house.heard.size(), 4u);
  EXPECT_EQ(house.heard[0].payload, "a");
  EXPECT_EQ(house.heard[1].channel, "news");
  EXPECT_EQ(house.heard[2].payload, "b");
  EXPECT_EQ(house.heard[3].channel, "news");
  for (const Heard& heard : house.heard) EXPECT_EQ(heard.required, lsn);
}

TEST(Notifications, OneKeysEventsComeInTheOrderOfItsChanges) {
  House house("Eg$");
  house.mine.add(SubscriptionKind::kPattern, "*");
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const Key key = house.keyspace->key("k");
      (void)house.keyspace->admit(100, WriteKind::kGrows);
      KeyAccess access(*house.keyspace, key);
      if (const Found found = access.find(0, key)) {
        access.erase(0, key, found);
        access.event(KeyEvent::kGeneric, "del", 0, key);
      } else {
        house.set(access, key);
      }
    }
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  ASSERT_EQ(house.heard.size(), 4000u);
  for (size_t i = 0; i < house.heard.size(); ++i) EXPECT_EQ(house.heard[i].channel, i % 2 == 0 ? "__keyevent@0__:set" : "__keyevent@0__:del") << i;
  for (size_t i = 1; i < house.heard.size(); ++i) EXPECT_LT(house.heard[i - 1].required, house.heard[i].required);
}

}  // namespace
}  // namespace pion
