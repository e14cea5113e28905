#include "resp/reply.h"

#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>

namespace pion {

constinit thread_local uint32_t errors_written = 0;

namespace {

constinit std::atomic<void (*)(std::string_view)> tell_error{nullptr};

// "<mark><number>\r\n", put together on the stack and appended once: the hottest lines of the writer.
void append_number(std::string& out, char mark, int64_t value) {
  char line[24];
  line[0] = mark;
  char* end = std::to_chars(line + 1, line + sizeof line - 2, value).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append(line, static_cast<size_t>(end - line));
}

void append_line(std::string& out, char mark, std::string_view text) {
  out.push_back(mark);
  const size_t from = out.size();
  out.append(text);
  if (text.find_first_of("\r\n") != std::string_view::npos) {
    for (size_t i = from; i < out.size(); ++i) {
      if (out[i] == '\r' || out[i] == '\n') out[i] = ' ';
    }
  }
  out.append("\r\n", 2);
}

constexpr double kLargestWhole = 4611686018427387904.0;  // 2^62: up to here Redis prints all digits of an integer

}  // namespace

void on_error_written(void (*told)(std::string_view text)) { tell_error = told; }

// Shortest digits that read back equal, as Redis prints them: integers without a point, exponents unpadded.
std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[40];
  if (value == std::trunc(value) && std::fabs(value) <= kLargestWhole) {
    if (value == 0 && std::signbit(value)) return "-0";
    return std::string(text, std::to_chars(text, text + sizeof text, static_cast<int64_t>(value)).ptr);
  }
  // Redis' printer (Grisu's): digits d x 10^k; decimal unless the number of zeros makes the exponent form shorter.
  char* end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
  const char* mark = static_cast<const char*>(std::memchr(text, 'e', static_cast<size_t>(end - text)));
  int exponent = 0;
  std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, exponent);
  std::string digits;
  for (const char* at = text; at < mark; ++at) {
    if (*at >= '0' && *at <= '9') digits.push_back(*at);
  }
  const std::string sign = value < 0 ? "-" : "";
  const int count = static_cast<int>(digits.size());
  const int k = exponent - (count - 1);  // value = digits x 10^k
  if (k >= 0 && exponent < count + 7) return sign + digits + std::string(static_cast<size_t>(k), '0');
  if (k < 0 && (k > -7 || std::abs(exponent) < 4)) {
    if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    return sign + digits.substr(0, static_cast<size_t>(exponent + 1)) + "." + digits.substr(static_cast<size_t>(exponent + 1));
  }
  std::string mantissa = digits.substr(0, 1);
  if (count > 1) mantissa += "." + digits.substr(1);
  return sign + mantissa + "e" + (exponent < 0 ? "-" : "+") + std::to_string(std::abs(exponent));
}

void ReplyWriter::header(char mark, int64_t value) { append_number(out_->tail(), mark, value); }

void ReplyWriter::simple(std::string_view text) { append_line(out_->tail(), '+', text); }

void ReplyWriter::error(std::string_view text) {
  append_line(out_->tail(), '-', text);
  errors_written++;
  if (const auto tell = tell_error.load(std::memory_order_relaxed)) tell(text);
}

void ReplyWriter::integer(int64_t value) { header(':', value); }

void ReplyWriter::bulk(std::string_view bytes) {
  std::string& out = out_->tail();
  append_number(out, '$', static_cast<int64_t>(bytes.size()));
  out.append(bytes);
  out.append("\r\n", 2);
}

void ReplyWriter::bulk(FileSlice slice) {
  header('$', static_cast<int64_t>(slice.length));
  out_->slice(std::move(slice));
  out_->tail().append("\r\n", 2);
}

void ReplyWriter::nil() { out_->tail().append(protocol_ >= 3 ? "_\r\n" : "$-1\r\n"); }

void ReplyWriter::nil_array() { out_->tail().append(protocol_ >= 3 ? "_\r\n" : "*-1\r\n"); }

void ReplyWriter::boolean(bool value) {
  if (protocol_ >= 3) {
    out_->tail().append(value ? "#t\r\n" : "#f\r\n");
  } else {
    integer(value ? 1 : 0);
  }
}

void ReplyWriter::real(double value) {
  const std::string text = format_real(value);
  if (protocol_ >= 3) {
    append_line(out_->tail(), ',', text);
  } else {
    bulk(text);
  }
}

void ReplyWriter::big_number(std::string_view digits) {
  if (protocol_ >= 3) {
    append_line(out_->tail(), '(', digits);
  } else {
    bulk(digits);
  }
}

void ReplyWriter::verbatim(std::string_view text) {
  if (protocol_ < 3) return bulk(text);
  std::string& out = out_->tail();
  append_number(out, '=', static_cast<int64_t>(text.size() + 4));
  out.append("txt:").append(text).append("\r\n", 2);
}

void ReplyWriter::array(int64_t elements) { header('*', elements); }

void ReplyWriter::map(int64_t pairs) {
  if (protocol_ >= 3) return header('%', pairs);
  header('*', pairs * 2);
}

void ReplyWriter::set(int64_t elements) { header(protocol_ >= 3 ? '~' : '*', elements); }

void ReplyWriter::push(int64_t elements) { header(protocol_ >= 3 ? '>' : '*', elements); }

}  // namespace pion
