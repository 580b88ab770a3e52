#include "daemon/config/fields.h"

#include <absl/strings/str_split.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <type_traits>

#include "storage/base/nearest_word.h"
#include "storage/base/units.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// A number from TOML counts as the text that a flag would have given.
std::string Scalar(const RawValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? ToText(value) : *text;
}

absl::Status AnyText(std::string_view) { return absl::OkStatus(); }

absl::Status AbsolutePath(std::string_view text) {
  if (text.empty() || text.front() == '/') return absl::OkStatus();
  return InvalidArgument("begins with no \"/\"");
}

absl::Status FileMode(std::string_view text) { return ParseFileMode(text).status(); }

absl::Status FileModeOrEmpty(std::string_view text) {
  return text.empty() ? absl::OkStatus() : FileMode(text);
}

// "/x/inc" of "/x//inc/" and "/x/./inc". ".." stays: where it leads is up to links.
std::string WithoutEmptyParts(const std::string& path) {
  std::string plain;
  for (const std::filesystem::path& part : std::filesystem::path(path).relative_path()) {
    if (!part.empty() && part != ".") plain += "/" + part.string();
  }
  return plain.empty() ? "/" : plain;
}

absl::StatusOr<std::vector<std::string>> SplitList(const RawValue& raw) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&raw)) return *list;
  const auto* text = std::get_if<std::string>(&raw);
  if (text == nullptr) return InvalidArgument("expected a list of texts");
  return std::vector<std::string>(absl::StrSplit(*text, ':', absl::SkipEmpty()));
}

absl::StatusOr<std::vector<std::string>> SplitPaths(const RawValue& raw) {
  KILN_ASSIGN_OR_RETURN(std::vector<std::string> paths, SplitList(raw));
  for (std::string& path : paths) {
    if (path.empty() || path.front() != '/') {
      return InvalidArgument("\"{}\" is not an absolute path", path);
    }
    path = WithoutEmptyParts(path);
  }
  return paths;
}

// Adds the settings of one section to `fields`.
template <typename S>
struct Section {
  using Check = std::function<absl::Status(std::string_view)>;
  using Split = absl::StatusOr<std::vector<std::string>> (*)(const RawValue&);

  std::string_view section;
  S Config::*member;
  std::vector<Field>& fields;

  // `parse` makes the value of what a source gives, `print` a TOML literal of the value.
  template <typename Value, typename Parse, typename Print>
  void Add(std::string_view name, Value S::*value, std::string form, std::string_view doc,
           Parse parse, Print print) {
    const auto set = [=, member = member](Config& config, const RawValue& raw) -> absl::Status {
      KILN_ASSIGN_OR_RETURN(config.*member.*value, parse(raw));
      return absl::OkStatus();
    };
    const auto get = [=, member = member](const Config& config) {
      return print(config.*member.*value);
    };
    fields.push_back({section, name, doc, std::move(form), set, get});
  }

  template <typename Value, typename Parse, typename Format>
  void Bounded(std::string_view what, std::string_view name, Value S::*value, Value min, Value max,
               std::string_view doc, Parse parse, Format format) {
    const std::string bounds = fmt::format("from {} to {}", format(min), format(max));
    const auto parse_bounded = [=](const RawValue& raw) -> absl::StatusOr<Value> {
      KILN_ASSIGN_OR_RETURN(const Value given, parse(Scalar(raw)));
      if (given < min || given > max) return InvalidArgument("must be {}", bounds);
      return given;
    };
    const auto print = [format](Value given) {
      return std::is_same_v<Value, int64_t> ? format(given) : Quote(format(given));
    };
    Add(name, value, fmt::format("{} {}", what, bounds), doc, parse_bounded, print);
  }
  void Size(std::string_view name, uint64_t S::*value, uint64_t min, uint64_t max,
            std::string_view doc) {
    Bounded("a size", name, value, min, max, doc, ParseSize, FormatSize);
  }
  void Duration(std::string_view name, milliseconds S::*value, milliseconds min, milliseconds max,
                std::string_view doc) {
    Bounded("a duration", name, value, min, max, doc, ParseDuration, FormatDuration);
  }
  void Integer(std::string_view name, int64_t S::*value, int64_t min, int64_t max,
               std::string_view doc) {
    const auto format = [](int64_t number) { return fmt::format("{}", number); };
    Bounded("a whole number", name, value, min, max, doc, ParseInteger, format);
  }

  void Truth(std::string_view name, bool S::*value, std::string_view doc) {
    const auto parse = [](const RawValue& raw) -> absl::StatusOr<bool> {
      const std::string text = Scalar(raw);
      if (text != "true" && text != "false") return InvalidArgument("must be true or false");
      return text == "true";
    };
    Add(name, value, "true or false", doc, parse, [](bool is) { return is ? "true" : "false"; });
  }

  void Text(std::string_view name, std::string S::*value, std::string form, Check check,
            std::string_view doc) {
    const auto parse = [check](const RawValue& raw) -> absl::StatusOr<std::string> {
      const auto* text = std::get_if<std::string>(&raw);
      if (text == nullptr) return InvalidArgument("expected a string");
      if (text->find('\0') != std::string::npos) return InvalidArgument("has a NUL byte");
      KILN_RETURN_IF_ERROR(check(*text));
      return *text;
    };
    Add(name, value, std::move(form), doc, parse, Quote);
  }
  void Path(std::string_view name, std::string S::*value, std::string_view doc) {
    Text(name, value, "an absolute path", AbsolutePath, doc);
  }
  // A text that is one of `choices`; `form` lists them.
  void Choice(std::string_view name, std::string S::*value, const std::string& form,
              const std::vector<std::string_view>& choices, std::string_view doc) {
    const auto check = [form, choices](std::string_view text) {
      const bool is_one = std::find(choices.begin(), choices.end(), text) != choices.end();
      return is_one ? absl::OkStatus() : InvalidArgument("must be {}", form);
    };
    Text(name, value, form, check, doc);
  }

  void List(std::string_view name, std::vector<std::string> S::*value, std::string_view what,
            Split split, std::string_view doc) {
    const auto print = [](std::vector<std::string> texts) {
      for (std::string& text : texts) text = Quote(text);
      return fmt::format("[{}]", fmt::join(texts, ", "));
    };
    const auto form =
        fmt::format("a list of {} (separated by ':' in a flag or the environment)", what);
    Add(name, value, form, doc, split, print);
  }
};

std::vector<Field> MakeFields() {
  constexpr uint64_t kMiB = limits::kMiB;
  constexpr uint64_t kTiB = 1024 * limits::kGiB;
  using std::chrono::hours;
  std::vector<Field> fields;
  Section<Config::Store> store{"store", &Config::store, fields};
  store.Size("size", &Config::Store::size_bytes, 16 * kMiB, 64 * kTiB,
             "What the store may occupy on disk, after compression.");
  store.Size("free_disk", &Config::Store::free_disk_bytes, 0, 64 * kTiB,
             "Nothing is stored while less than this is free on the store's file system.");
  store.Size(
      "memory", &Config::Store::memory_bytes, 16 * kMiB, kTiB,
      "What the caches in the daemon's memory may take: half of it artifacts, a quarter known "
      "requests. The indexes of the store's files come on top.");
  store.Duration("lease_time", &Config::Store::lease_time, milliseconds(0), hours(24 * 30),
                 "What a warm compiled or found is not evicted for so long. 0ms: it may be at "
                 "once.");
  Section<Config::Hot> hot{"hot", &Config::hot, fields};
  hot.Size("size", &Config::Hot::size_bytes, 0, kTiB,
           "What the published files in the hot directory may occupy.");
  Section<Config::Workers> workers{"workers", &Config::workers, fields};
  workers.Integer("slots", &Config::Workers::slots, 0, limits::kWorkersMax,
                  "Compiles at the same time. 0: one for each core that the daemon may use.");
  workers.Duration("compile_time", &Config::Workers::compile_time, milliseconds(1000), hours(24),
                   "A compile that takes longer is stopped.");
  workers.Duration(
      "idle_time", &Config::Workers::idle_time, milliseconds(0), hours(24),
      "Spare worker processes that were not needed for this long end. 0ms: they stay.");
  workers.Integer("idle_min", &Config::Workers::idle_min, 0, limits::kWorkersMax,
                  "Spare worker processes of a toolchain that stay for the next compile.");
  workers.Duration("zygote_idle_time", &Config::Workers::zygote_idle_time, milliseconds(0),
                   hours(24 * 30),
                   "A toolchain that nobody used for so long gives back all its processes, but for "
                   "the default one and the first ptxas. 0ms: none does.");
  workers.Integer(
      "crashes_per_hour", &Config::Workers::crashes_per_hour, 0, 1'000'000,
      "After so many crashes of its workers within an hour, a toolchain's processes are "
      "started afresh, once. 0: never.");
  workers.Duration("quarantine_time", &Config::Workers::quarantine_time, milliseconds(0), hours(24),
                   "A kernel that crashed its compiler twice is not compiled again for so long. "
                   "0ms: it always is.");
  workers.Size("rss", &Config::Workers::rss_bytes, 256 * kMiB, kTiB,
               "The memory that a compile may take. A worker's address space is limited to twice "
               "as much.");
  workers.Size("memory_min", &Config::Workers::memory_min_bytes, 0, kTiB,
               "Compiles run side by side only as far as this much memory stays available.");
  workers.Integer("memory_pressure", &Config::Workers::memory_pressure_percent, 0, 100,
                  "Compiles run one at a time while work waits for memory for this percentage of "
                  "the time (the kernel's pressure stall information). 0: never for that.");
  workers.Path("script", &Config::Workers::script,
               "The program of Triton's workers, with kiln_triton_worker beside it. Empty: "
               "../lib/kiln/triton_worker.py from the executable.");
  workers.Choice(
      "malloc", &Config::Workers::malloc, "\"jemalloc\" or \"libc\"", {"jemalloc", "libc"},
      "What workers allocate with. \"jemalloc\": with it where libjemalloc2 is installed, "
      "which makes compiles faster.");
  workers.Choice("jail", &Config::Workers::jail, "\"on\" or \"off\"", {"on", "off"},
                 "\"off\" runs compilers with all that the daemon may do: only to find a fault.");
  workers.Truth("require_jail", &Config::Workers::require_jail,
                "Where workers cannot be jailed fully, compiles fail instead of going on.");
  Section<Config::Audit> audit{"audit", &Config::audit, fields};
  audit.Integer("one_in", &Config::Audit::one_in, 0, 1'000'000'000,
                "One in so many hits is compiled again when nothing else is to be done, and "
                "compared with what is stored. 0: none.");
  Section<Config::Queue> queue{"queue", &Config::queue, fields};
  queue.Integer("length", &Config::Queue::length, 1, 1'000'000,
                "Compiles that may wait; further ones are refused.");
  Section<Config::Toolchain> toolchain{"toolchain", &Config::toolchain, fields};
  toolchain.List("directories", &Config::Toolchain::directories, "absolute paths", SplitPaths,
                 "Where toolchains are looked for. Empty: the usual places.");
  toolchain.List("trusted_owners", &Config::Toolchain::trusted_owners, "users, by name or number",
                 SplitList,
                 "Whose files toolchains may consist of, besides root's and the daemon's own.");
  toolchain.Text("default", &Config::Toolchain::default_selector, "a toolchain's selector", AnyText,
                 "What an empty selector means, such as \"triton==3.6.0\". Empty: what `kiln "
                 "toolchain default` chose, or the newest.");
  Section<Config::Sockets> sockets{"sockets", &Config::sockets, fields};
  sockets.Text("mode", &Config::Sockets::mode, "octal permission bits such as \"0660\"",
               FileModeOrEmpty,
               "Permissions of kilnd.sock. Empty: 0660 for root's daemon, else 0600.");
  sockets.Text("group", &Config::Sockets::group, "a group's name", AnyText,
               "The group of kilnd.sock. Empty: the daemon's own.");
  sockets.Text("admin_mode", &Config::Sockets::admin_mode, "octal permission bits such as \"0600\"",
               FileMode, "Permissions of admin.sock.");
  sockets.Text("admin_group", &Config::Sockets::admin_group, "a group's name", AnyText,
               "The group of admin.sock. Empty: the daemon's own.");
  sockets.Duration("drain_time", &Config::Sockets::drain_time, milliseconds(0), hours(1),
                   "How long requests under way may take to finish when the daemon stops.");
  Section<Config::Tunings> tunings{"tunings", &Config::tunings, fields};
  tunings.List("shared_by", &Config::Tunings::shared_by, "users, by name or number", SplitList,
               "Users who find the times that one of them measured. They must trust each other: a "
               "wrong time picks a slower configuration. Empty: each user has the own ones alone.");
  Section<Config::Log> log{"log", &Config::log, fields};
  log.Choice("level", &Config::Log::level, "\"debug\", \"info\", \"warning\" or \"error\"",
             {"debug", "info", "warning", "error"}, "The least important lines that are written.");
  Section<Config::Paths> paths{"paths", &Config::paths, fields};
  paths.Path("root", &Config::Paths::root,
             "Keeps state, sockets and hot directory beneath this directory.");
  paths.Path("state", &Config::Paths::state, "Where artifacts are stored. Empty: as root says.");
  paths.Path("run", &Config::Paths::run,
             "Where sockets and the hot directory are. Empty: as root says.");
  return fields;
}

}  // namespace

std::string ToText(const RawValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Quote(*text);
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return fmt::format("[{}]", fmt::join(std::get<std::vector<std::string>>(value), ", "));
}

const std::vector<Field>& Fields() {
  static const auto* const fields = new std::vector<Field>(MakeFields());
  return *fields;
}

bool HasSection(std::string_view section) {
  return std::any_of(Fields().begin(), Fields().end(),
                     [&](const Field& field) { return field.section == section; });
}

absl::Status UnknownSection(std::string_view section) {
  std::set<std::string_view> known;
  for (const Field& field : Fields()) known.insert(field.section);
  return InvalidArgument("unknown section [{}]; there are {}{}", section, fmt::join(known, ", "),
                         DidYouMean(section, known));
}

absl::StatusOr<const Field*> FindField(std::string_view section, std::string_view name) {
  if (!HasSection(section)) return UnknownSection(section);
  std::vector<std::string> known;
  for (const Field& field : Fields()) {
    if (field.section == section && field.name == name) return &field;
    if (field.section == section) known.push_back(field.Name());
  }
  const std::string full = fmt::format("{}.{}", section, name);
  if (full == "store.memory_tier") {
    return InvalidArgument(
        "store.memory_tier is gone: set store.memory, which bounds all caches together (half of it "
        "keeps artifacts, as memory_tier did)");
  }
  return InvalidArgument("unknown setting {}; section [{}] has {}{}", full, section,
                         fmt::join(known, ", "), DidYouMean(full, known));
}

absl::Status SetField(const Field& field, const RawValue& value, Config& config) {
  const absl::Status status = field.set(config, value);
  if (status.ok()) return status;
  return InvalidArgument("{} = {}: {}; it takes {}", field.Name(), ToText(value), Message(status),
                         field.form);
}

}  // namespace kiln
