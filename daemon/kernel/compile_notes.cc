#include "daemon/kernel/compile_notes.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace kiln {
namespace {

constexpr std::string_view kDetectedDuring = "detected during";
// A place beyond it is none that a source has.
constexpr int kPlaceMax = 1 << 30;

bool TakeEnd(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

// "" for the fixed names under which sources are compiled, such as "kernel.cu".
std::string FileOf(std::string_view name) {
  for (const std::string_view own : {"kernel.cu", "kernel.cl", "kernel.ttir", "kernel.ttgir"}) {
    if (name == own) return "";
  }
  return std::string(name.substr(0, kCompileNoteBytesMax));
}

// Takes a number off the end; nothing where there is none.
std::optional<int> TakeNumber(std::string_view& text) {
  size_t begin = text.size();
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  int number = 0;
  const auto [_, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (begin == text.size()) return std::nullopt;
  text = text.substr(0, begin);
  return error == std::errc() && number <= kPlaceMax ? number : 0;
}

struct Place {
  std::string_view file;
  int line = 0;
  int column = 0;
};

// `a.h(3)`, `kernel.ttir:3:5`, `loc("kernel.ttir":3:5)`.
std::optional<Place> ReadPlace(std::string_view text) {
  Place place;
  if (text.starts_with("loc(") && TakeEnd(text, ")")) text.remove_prefix(4);
  if (TakeEnd(text, ")")) {
    const auto line = TakeNumber(text);
    if (!line || !TakeEnd(text, "(")) return std::nullopt;
    place.line = *line;
  } else {
    const auto column = TakeNumber(text);
    if (!column || !TakeEnd(text, ":")) return std::nullopt;
    const auto line = TakeNumber(text);
    if (!line || !TakeEnd(text, ":")) return std::nullopt;
    place.line = *line;
    place.column = *column;
  }
  if (text.starts_with('"') && text.size() > 1 && TakeEnd(text, "\"")) text.remove_prefix(1);
  place.file = text;
  return place;
}

struct Line {
  std::string_view kind;  // "error", "warning", "note"
  Place place;
  std::string_view message;
};

// `PLACE: KIND: message`, where NVRTC puts a number behind some kinds: `note #3326-D`. What it
// quotes of the source may look the same, behind the two blanks that it puts in front.
std::optional<Line> ReadLine(std::string_view text) {
  if (text.starts_with(' ') || text.starts_with('\t')) return std::nullopt;
  for (const std::string_view kind : {"note", "error", "catastrophic error", "warning"}) {
    size_t at = text.find(kind);
    while (at != std::string_view::npos && (at < 2 || text.substr(at - 2, 2) != ": ")) {
      at = text.find(kind, at + 1);
    }
    if (at == std::string_view::npos) continue;
    std::string_view rest = text.substr(at + kind.size());
    if (rest.starts_with(" #")) rest.remove_prefix(std::min(rest.find(':'), rest.size()));
    const auto place = ReadPlace(text.substr(0, at - 2));
    if (!place || !rest.starts_with(": ")) continue;
    return Line{kind, *place, Trimmed(rest.substr(2))};
  }
  return std::nullopt;
}

CompileNote MakeNote(const Place& place, std::string_view message) {
  return {FileOf(place.file), place.line, place.column,
          std::string(message.substr(0, kCompileNoteBytesMax))};
}

// `instantiation of "…" at line 3`, of the error's own file where none is named.
CompileNote ReadContext(std::string_view text, std::string_view file_of_error) {
  constexpr std::string_view kAtLine = " at line ";
  constexpr std::string_view kOf = " of ";
  const size_t at = text.rfind(kAtLine);
  if (at == std::string_view::npos) return MakeNote({}, text);
  std::string_view where = text.substr(at + kAtLine.size());
  Place place{file_of_error};
  if (const size_t of = where.find(kOf); of != std::string_view::npos) {
    place.file = where.substr(of + kOf.size());
    // NVRTC puts some names in quotes.
    if (place.file.starts_with('"') && place.file.size() > 1 && TakeEnd(place.file, "\"")) {
      place.file.remove_prefix(1);
    }
    where = where.substr(0, of);
  }
  place.line = TakeNumber(where).value_or(0);
  return MakeNote(place, text.substr(0, at));
}

}  // namespace

std::vector<CompileNote> NotesIn(std::string_view output) {
  std::vector<CompileNote> notes;
  std::optional<Place> error;
  bool in_contexts = false;
  while (!output.empty() && notes.size() < kCompileNotesMax) {
    const size_t end = std::min(output.find('\n'), output.size());
    const std::string_view text = output.substr(0, end);
    output.remove_prefix(std::min(end + 1, output.size()));
    const std::string_view words = Trimmed(text);
    const bool is_indented = text.starts_with("    ");
    if (in_contexts && is_indented) {
      notes.push_back(ReadContext(words, error->file));
      continue;
    }
    in_contexts = false;
    if (error && is_indented && words.starts_with(kDetectedDuring)) {
      const std::string_view context = Trimmed(words.substr(kDetectedDuring.size()));
      in_contexts = context == ":";
      if (!in_contexts) notes.push_back(ReadContext(context, error->file));
      continue;
    }
    const auto line = ReadLine(text);
    if (!line) continue;
    if (line->kind == "note") {
      if (error) notes.push_back(MakeNote(line->place, line->message));
    } else if (!error) {
      if (line->kind != "warning") error = line->place;
    } else if (!line->message.starts_with("Failures have been detected")) {
      break;  // of another; MLIR says so once more, with a note that names the pass
    }
  }
  return notes;
}

}  // namespace kiln
