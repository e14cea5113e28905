// Writes replies in RESP2 or RESP3 into an output chain. The caller says a map, a set, a double; the protocol decides
// its shape (a RESP2 client gets flat arrays and bulk strings, as Redis does it).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "resp/output.h"

namespace pion {

// As Redis prints doubles.
std::string format_real(double value);

// Error replies that this thread has written; who runs a command inside another sets it back for the outer one.
extern constinit thread_local uint32_t errors_written;
// Is told of each, without the mark: "ERR ...". Any thread calls it.
void on_error_written(void (*told)(std::string_view text));

class ReplyWriter {
 public:
  ReplyWriter(OutputChain& out, int protocol) : out_(&out), protocol_(protocol) {}

  int protocol() const { return protocol_; }
  void set_protocol(int protocol) { protocol_ = protocol; }
  OutputChain& out() { return *out_; }

  void ok() { simple("OK"); }
  void simple(std::string_view text);      // +text; CR and LF become spaces
  void error(std::string_view text);       // -text, the text begins with its code word ("ERR ..."); CR and LF become spaces
  void integer(int64_t value);
  void bulk(std::string_view bytes);
  void bulk(FileSlice slice);              // $<length> and the file's bytes, by sendfile
  void nil();                              // RESP3 _, RESP2 $-1
  void nil_array();                        // RESP3 _, RESP2 *-1
  void boolean(bool value);                // RESP3 #t/#f, RESP2 :1/:0
  void real(double value);                 // RESP3 ,value; RESP2 a bulk; shortest form that reads back equal
  void big_number(std::string_view digits);
  void verbatim(std::string_view text);    // RESP3 =txt:, RESP2 a bulk
  void array(int64_t elements);            // header; the elements follow
  void map(int64_t pairs);                 // header; key, value, key, value ... follow
  void set(int64_t elements);
  void push(int64_t elements);             // RESP3 >, RESP2 an array

 private:
  void header(char mark, int64_t value);

  OutputChain* out_;
  int protocol_;
};

}  // namespace pion
