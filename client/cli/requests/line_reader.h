// Lines of bounded length from a stream.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace kiln::cli {

// Holds one line at a time; a longer one is skipped without being held. Not thread-safe; blocks as
// the stream does.
class LineReader {
 public:
  enum class Outcome { kLine, kTooLong, kEnd };

  // REQUIRES: the stream outlives the reader.
  LineReader(std::istream& stream, size_t line_bytes_max)
      : buffer_(stream.rdbuf()), line_bytes_max_(line_bytes_max) {}

  // `line` has no line end ("\n" or "\r\n"). The last line of the stream needs none.
  Outcome Next(std::string& line);
  // The number of the line that Next returned last, from 1.
  uint64_t number() const { return number_; }

 private:
  std::streambuf* buffer_;
  size_t line_bytes_max_;
  uint64_t number_ = 0;
};

}  // namespace kiln::cli
