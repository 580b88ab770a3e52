#include "client/cli/requests/line_reader.h"

namespace kiln::cli {

LineReader::Outcome LineReader::Next(std::string& line) {
  using Traits = std::streambuf::traits_type;
  line.clear();
  bool is_too_long = false;
  bool is_empty = true;
  while (true) {
    const auto next = buffer_->sbumpc();
    if (Traits::eq_int_type(next, Traits::eof())) {
      if (is_empty) return Outcome::kEnd;
      break;
    }
    is_empty = false;
    const char c = Traits::to_char_type(next);
    if (c == '\n') break;
    if (line.size() == line_bytes_max_) {
      is_too_long = true;
    } else {
      line += c;
    }
  }
  ++number_;
  if (is_too_long) {
    line = {};
    return Outcome::kTooLong;
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return Outcome::kLine;
}

}  // namespace kiln::cli
