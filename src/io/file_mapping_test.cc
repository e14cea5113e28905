#include "io/file_mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace pion {
namespace {

class Mapped : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = memfd_create("mapped", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    const std::string bytes(40'000, 'a');
    ASSERT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), 40'000);
    mapping_ = FileMapping::make(fd_, 1 << 20);
    ASSERT_NE(mapping_, nullptr);
  }
  void TearDown() override { close(fd_); }

  static void append(std::string_view bytes, void* to) { static_cast<std::string*>(to)->append(bytes); }

  int fd_ = -1;
  std::shared_ptr<const FileMapping> mapping_;
};

TEST_F(Mapped, ShowsWhatIsInMemory) {
  std::string seen;
  EXPECT_TRUE(mapping_->look(5'000, 30'000, append, &seen));
  EXPECT_EQ(seen, std::string(30'000, 'a'));
  ASSERT_EQ(pwrite(fd_, "later", 5, 40'000), 5);
  seen.clear();
  EXPECT_TRUE(mapping_->look(39'999, 6, append, &seen));
  EXPECT_EQ(seen, "alater");
}

TEST_F(Mapped, LooksAtNothingBehindTheEnd) {
  std::string seen;
  EXPECT_FALSE(mapping_->look(60'000, 10, append, &seen));
  EXPECT_FALSE(mapping_->look(30'000, 40'000, append, &seen));
  EXPECT_FALSE(mapping_->look((1 << 20) - 5, 10, append, &seen));
  EXPECT_FALSE(mapping_->look(~uint64_t{0}, 10, append, &seen));
  EXPECT_EQ(seen, "");
}

// What a failing disk does to a page that was let go: the signal comes while it is looked at, and ends nothing.
TEST_F(Mapped, APageThatGoesAwayMeanwhileIsNoCrash) {
  struct Context {
    int fd;
    volatile int touched = 0;
  } context{fd_};
  const auto cut = [](std::string_view bytes, void* to) {
    Context& mine = *static_cast<Context*>(to);
    ASSERT_EQ(ftruncate(mine.fd, 0), 0);
    mine.touched = mine.touched + 1 + *const_cast<const volatile char*>(&bytes[20'000]);
  };
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_EQ(ftruncate(fd_, 0), 0);
    const std::string bytes(40'000, 'b');
    ASSERT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), 40'000);
    EXPECT_FALSE(mapping_->look(0, 40'000, cut, &context));
    EXPECT_EQ(context.touched, 0);
  }
}

using MappedDeathTest = Mapped;

TEST_F(MappedDeathTest, AnyOtherBusErrorIsOne) {
  EXPECT_EXIT(
      {
        const auto* elsewhere = static_cast<const volatile char*>(mmap(nullptr, 1 << 20, PROT_READ, MAP_SHARED, fd_, 0));
        static_cast<void>(elsewhere[500'000]);
        _exit(0);
      },
      [](int status) {  // a sanitizer reports it and exits
        return WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0;
      },
      "");
}

}  // namespace
}  // namespace pion
