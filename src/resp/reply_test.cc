#include "resp/reply.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace pion {
namespace {

std::string written(int protocol, const std::function<void(ReplyWriter&)>& write) {
  OutputChain out;
  ReplyWriter reply(out, protocol);
  write(reply);
  std::string all;
  for (const OutputChain::Link& link : out.links()) all += link.bytes + (link.slice.length > 0 ? "<slice>" : "");
  return all;
}

TEST(ReplyWriter, ShapesFollowTheProtocol) {
  const auto everything = [](ReplyWriter& reply) {
    reply.nil();
    reply.nil_array();
    reply.boolean(true);
    reply.map(2);
    reply.set(3);
    reply.push(1);
    reply.array(0);
    reply.verbatim("a\n");
    reply.real(1.5);
    reply.big_number("123");
    reply.bulk("x");
    reply.integer(-9223372036854775807LL - 1);
  };
  EXPECT_EQ(written(2, everything),
            "$-1\r\n*-1\r\n:1\r\n*4\r\n*3\r\n*1\r\n*0\r\n$2\r\na\n\r\n$3\r\n1.5\r\n$3\r\n123\r\n$1\r\nx\r\n:-9223372036854775808\r\n");
  EXPECT_EQ(written(3, everything),
            "_\r\n_\r\n#t\r\n%2\r\n~3\r\n>1\r\n*0\r\n=6\r\ntxt:a\n\r\n,1.5\r\n(123\r\n$1\r\nx\r\n:-9223372036854775808\r\n");
}

TEST(ReplyWriter, LinesHaveNoLineBreaks) {
  EXPECT_EQ(written(2, [](ReplyWriter& reply) { reply.error("ERR a\r\nb"); }), "-ERR a  b\r\n");
  EXPECT_EQ(written(2, [](ReplyWriter& reply) { reply.simple("a\nb"); }), "+a b\r\n");
}

TEST(ReplyWriter, NumbersAsRedis82PrintsThem) {
  const auto real = [](double value) {
    std::string text = written(3, [value](ReplyWriter& reply) { reply.real(value); });
    return text.substr(1, text.size() - 3);
  };
  EXPECT_EQ(real(-5.6), "-5.6");
  EXPECT_EQ(real(5.3e-8), "5.3e-8");
  EXPECT_EQ(real(1e20), "1e+20");
  EXPECT_EQ(real(1e18), "1000000000000000000");
  EXPECT_EQ(real(4611686018427387904.0), "4611686018427387904");
  EXPECT_EQ(real(-4611686141884177408.0), "-4611686141884177000");
  EXPECT_EQ(real(9e18), "9e+18");
  EXPECT_EQ(real(694609.2858792739), "6.946092858792739e+5");
  EXPECT_EQ(real(828582.7), "828582.7");
  EXPECT_EQ(real(123456789.125), "123456789.125");
  EXPECT_EQ(real(0), "0");
  EXPECT_EQ(real(-0.0), "-0");
  EXPECT_EQ(real(0.001), "0.001");
  EXPECT_EQ(real(1.0 / 0.0), "inf");
  EXPECT_EQ(real(-1.0 / 0.0), "-inf");
}

TEST(ReplyWriter, ASliceIsABulk) {
  EXPECT_EQ(written(2, [](ReplyWriter& reply) { reply.bulk(FileSlice{nullptr, 0, 0, 70000}), reply.ok(); }),
            "$70000\r\n<slice>\r\n+OK\r\n");
  EXPECT_EQ(written(2, [](ReplyWriter& reply) { reply.bulk(FileSlice{}); }), "$0\r\n\r\n");
}

TEST(OutputChain, SpliceKeepsOrderAndDescriptorsStartALink) {
  OutputChain a, b;
  a.tail() = "1";
  b.tail() = "2";
  b.slice({nullptr, 7, 0, 5});
  b.tail() = "3";
  b.descriptors({9}, nullptr);
  b.tail() = "4";
  a.splice(std::move(b));
  ASSERT_EQ(a.links().size(), 3u);
  EXPECT_EQ(a.links()[0].bytes, "12");
  EXPECT_EQ(a.links()[0].slice.fd, 7);
  EXPECT_EQ(a.links()[1].bytes, "3");
  EXPECT_EQ(a.links()[2].bytes, "4");
  EXPECT_EQ(a.links()[2].descriptors, std::vector<int>{9});
  EXPECT_EQ(a.pending_bytes(), 9u);
  EXPECT_TRUE(b.empty());
}

}  // namespace
}  // namespace pion
