#include "daemon/config/fields.h"

#include <absl/strings/str_split.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <type_traits>

#include "storage/base/units.h"

namespace kiln {
namespace {

using std::chrono::milliseconds;

template <typename Section, typename Value>
struct Member {
  Section Config::*section;
  Value Section::*value;

  Value& In(Config& config) const { return config.*section.*value; }
  const Value& In(const Config& config) const { return config.*section.*value; }
};
template <typename Section, typename Value>
Member(Section Config::*, Value Section::*) -> Member<Section, Value>;

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

template <typename M, typename Parse, typename Format, typename Bound>
Field Bounded(std::string_view section, std::string_view name, std::string_view doc,
              std::string_view what, M member, Parse parse, Format format, Bound min, Bound max) {
  return {section,
          name,
          doc,
          fmt::format("{} from {} to {}", what, format(min), format(max)),
          [=](Config& config, const RawValue& raw) -> absl::Status {
            KILN_ASSIGN_OR_RETURN(const auto value, parse(Scalar(raw)));
            if (value < min || value > max) {
              return InvalidArgument("must be from {} to {}", format(min), format(max));
            }
            member.In(config) = value;
            return absl::OkStatus();
          },
          [=](const Config& config) {
            const std::string text = format(member.In(config));
            return std::is_same_v<Bound, int64_t> ? text : Quote(text);
          }};
}

template <typename M>
Field SizeField(std::string_view section, std::string_view name, std::string_view doc, M member,
                uint64_t min, uint64_t max) {
  return Bounded(section, name, doc, "a size", member, ParseSize, FormatSize, min, max);
}

template <typename M>
Field DurationField(std::string_view section, std::string_view name, std::string_view doc, M member,
                    milliseconds min, milliseconds max) {
  return Bounded(section, name, doc, "a duration", member, ParseDuration, FormatDuration, min, max);
}

template <typename M>
Field IntegerField(std::string_view section, std::string_view name, std::string_view doc, M member,
                   int64_t min, int64_t max) {
  const auto format = [](int64_t value) { return fmt::format("{}", value); };
  return Bounded(section, name, doc, "a whole number", member, ParseInteger, format, min, max);
}

template <typename M>
Field BoolField(std::string_view section, std::string_view name, std::string_view doc, M member) {
  return {section,
          name,
          doc,
          "true or false",
          [=](Config& config, const RawValue& raw) -> absl::Status {
            const std::string text = Scalar(raw);
            if (text != "true" && text != "false") return InvalidArgument("must be true or false");
            member.In(config) = text == "true";
            return absl::OkStatus();
          },
          [=](const Config& config) { return member.In(config) ? "true" : "false"; }};
}

using Check = std::function<absl::Status(std::string_view)>;

template <typename M>
Field TextField(std::string_view section, std::string_view name, std::string_view doc,
                std::string form, M member, Check check) {
  return {section,
          name,
          doc,
          std::move(form),
          [=](Config& config, const RawValue& raw) -> absl::Status {
            const auto* text = std::get_if<std::string>(&raw);
            if (text == nullptr) return InvalidArgument("expected a string");
            if (text->find('\0') != std::string::npos) return InvalidArgument("has a NUL byte");
            KILN_RETURN_IF_ERROR(check(*text));
            member.In(config) = *text;
            return absl::OkStatus();
          },
          [=](const Config& config) { return Quote(member.In(config)); }};
}

// A text that is one of those; `form` lists them.
template <typename M>
Field ChoiceField(std::string_view section, std::string_view name, std::string_view doc,
                  const std::string& form, M member, std::vector<std::string_view> choices) {
  const auto check = [form, choices = std::move(choices)](std::string_view text) {
    const bool is_one = std::find(choices.begin(), choices.end(), text) != choices.end();
    return is_one ? absl::OkStatus() : InvalidArgument("must be {}", form);
  };
  return TextField(section, name, doc, form, member, check);
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

using Split = absl::StatusOr<std::vector<std::string>> (*)(const RawValue&);

template <typename M>
Field ListField(std::string_view section, std::string_view name, std::string_view doc,
                std::string_view what, M member, Split split) {
  return {section,
          name,
          doc,
          fmt::format("a list of {} (separated by ':' in a flag or the environment)", what),
          [=](Config& config, const RawValue& raw) -> absl::Status {
            KILN_ASSIGN_OR_RETURN(member.In(config), split(raw));
            return absl::OkStatus();
          },
          [=](const Config& config) {
            std::string literal;
            for (const std::string& path : member.In(config)) {
              literal += (literal.empty() ? "" : ", ") + Quote(path);
            }
            return "[" + literal + "]";
          }};
}

std::vector<Field> MakeFields() {
  constexpr uint64_t kMiB = limits::kMiB;
  constexpr uint64_t kTiB = 1024 * limits::kGiB;
  const auto store = [](auto value) { return Member{&Config::store, value}; };
  const auto workers = [](auto value) { return Member{&Config::workers, value}; };
  const auto sockets = [](auto value) { return Member{&Config::sockets, value}; };
  const auto paths = [](auto value) { return Member{&Config::paths, value}; };
  using std::chrono::hours;
  return {
      SizeField("store", "size", "What the store may occupy on disk, after compression.",
                store(&Config::Store::size_bytes), 16 * kMiB, 64 * kTiB),
      SizeField("store", "free_disk",
                "Nothing is stored while less than this is free on the store's file system.",
                store(&Config::Store::free_disk_bytes), 0, 64 * kTiB),
      SizeField("store", "memory",
                "What all caches in the daemon's memory may take together: half for artifacts, a "
                "quarter each for known requests and for the store's index.",
                store(&Config::Store::memory_bytes), 16 * kMiB, kTiB),
      SizeField("hot", "size", "What the published files in the hot directory may occupy.",
                Member{&Config::hot, &Config::Hot::size_bytes}, 0, kTiB),
      IntegerField("workers", "slots",
                   "Compiles at the same time. 0: one for each core that the daemon may use.",
                   workers(&Config::Workers::slots), 0, limits::kWorkersMax),
      DurationField("workers", "compile_time", "A compile that takes longer is stopped.",
                    workers(&Config::Workers::compile_time), milliseconds(1000), hours(24)),
      DurationField(
          "workers", "idle_time",
          "Spare worker processes that were not needed for this long end. 0ms: they stay.",
          workers(&Config::Workers::idle_time), milliseconds(0), hours(24)),
      IntegerField("workers", "idle_min",
                   "Spare worker processes of a toolchain that stay for the next compile.",
                   workers(&Config::Workers::idle_min), 0, limits::kWorkersMax),
      DurationField(
          "workers", "zygote_idle_time",
          "A toolchain that nobody used for so long gives back all its processes, but for "
          "the default one. 0ms: none does.",
          workers(&Config::Workers::zygote_idle_time), milliseconds(0), hours(24 * 30)),
      IntegerField(
          "workers", "crashes_per_hour",
          "After so many crashes of its workers within an hour, a toolchain's processes are "
          "started afresh, once. 0: never.",
          workers(&Config::Workers::crashes_per_hour), 0, 1'000'000),
      DurationField("workers", "quarantine_time",
                    "A kernel that crashed its compiler twice is not compiled again for so long. "
                    "0ms: it always is.",
                    workers(&Config::Workers::quarantine_time), milliseconds(0), hours(24)),
      SizeField("workers", "rss",
                "The memory that a compile may take. A worker's address space is limited to twice "
                "as much.",
                workers(&Config::Workers::rss_bytes), 256 * kMiB, kTiB),
      SizeField("workers", "memory_min",
                "Compiles run side by side only as far as this much memory stays available.",
                workers(&Config::Workers::memory_min_bytes), 0, kTiB),
      IntegerField("workers", "memory_pressure",
                   "Compiles run one at a time while work waits for memory for this percentage of "
                   "the time (the kernel's pressure stall information). 0: never for that.",
                   workers(&Config::Workers::memory_pressure_percent), 0, 100),
      TextField("workers", "script",
                "The program of Triton's workers, with kiln_triton_worker beside it. Empty: "
                "../lib/kiln/triton_worker.py from the executable.",
                "an absolute path", workers(&Config::Workers::script), AbsolutePath),
      ChoiceField(
          "workers", "malloc",
          "What Triton's workers allocate with. \"jemalloc\": with it where libjemalloc2 is "
          "installed, which makes compiles faster.",
          "\"jemalloc\" or \"libc\"", workers(&Config::Workers::malloc), {"jemalloc", "libc"}),
      ChoiceField("workers", "jail",
                  "\"off\" runs compilers with all that the daemon may do: only to find a fault.",
                  "\"on\" or \"off\"", workers(&Config::Workers::jail), {"on", "off"}),
      BoolField("workers", "require_jail",
                "Where workers cannot be jailed fully, compiles fail instead of going on.",
                workers(&Config::Workers::require_jail)),
      IntegerField("audit", "one_in",
                   "One in so many hits is compiled again when nothing else is to be done, and "
                   "compared with what is stored. 0: none.",
                   Member{&Config::audit, &Config::Audit::one_in}, 0, 1'000'000'000),
      IntegerField("queue", "length", "Compiles that may wait; further ones are refused.",
                   Member{&Config::queue, &Config::Queue::length}, 1, 1'000'000),
      ListField("toolchain", "directories",
                "Where toolchains are looked for. Empty: the usual places.", "absolute paths",
                Member{&Config::toolchain, &Config::Toolchain::directories}, SplitPaths),
      ListField("toolchain", "trusted_owners",
                "Whose files toolchains may consist of, besides root's and the daemon's own.",
                "users, by name or number",
                Member{&Config::toolchain, &Config::Toolchain::trusted_owners}, SplitList),
      TextField("toolchain", "default",
                "What an empty selector means, such as \"triton==3.6.0\". Empty: what `kiln "
                "toolchain default` chose, or the newest.",
                "a toolchain's selector",
                Member{&Config::toolchain, &Config::Toolchain::default_selector}, AnyText),
      TextField("sockets", "mode",
                "Permissions of kilnd.sock. Empty: 0660 for root's daemon, else 0600.",
                "octal permission bits such as \"0660\"", sockets(&Config::Sockets::mode),
                FileModeOrEmpty),
      TextField("sockets", "group", "The group of kilnd.sock. Empty: the daemon's own.",
                "a group's name", sockets(&Config::Sockets::group), AnyText),
      TextField("sockets", "admin_mode", "Permissions of admin.sock.",
                "octal permission bits such as \"0600\"", sockets(&Config::Sockets::admin_mode),
                FileMode),
      TextField("sockets", "admin_group", "The group of admin.sock. Empty: the daemon's own.",
                "a group's name", sockets(&Config::Sockets::admin_group), AnyText),
      DurationField("sockets", "drain_time",
                    "How long requests under way may take to finish when the daemon stops.",
                    sockets(&Config::Sockets::drain_time), milliseconds(0), hours(1)),
      ChoiceField("log", "level", "The least important lines that are written.",
                  "\"debug\", \"info\", \"warning\" or \"error\"",
                  Member{&Config::log, &Config::Log::level}, {"debug", "info", "warning", "error"}),
      TextField("paths", "root", "Keeps state, sockets and hot directory beneath this directory.",
                "an absolute path", paths(&Config::Paths::root), AbsolutePath),
      TextField("paths", "state", "Where artifacts are stored. Empty: as root says.",
                "an absolute path", paths(&Config::Paths::state), AbsolutePath),
      TextField("paths", "run", "Where sockets and the hot directory are. Empty: as root says.",
                "an absolute path", paths(&Config::Paths::run), AbsolutePath),
  };
}

bool HasSection(std::string_view section) {
  return std::any_of(Fields().begin(), Fields().end(),
                     [&](const Field& field) { return field.section == section; });
}

}  // namespace

std::string ToText(const RawValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Quote(*text);
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  return fmt::format("[{}]", fmt::join(std::get<std::vector<std::string>>(value), ", "));
}

std::string Field::EnvironmentName() const {
  std::string text = fmt::format("KILN_{}_{}", section, name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

const std::vector<Field>& Fields() {
  static const auto* const fields = new std::vector<Field>(MakeFields());
  return *fields;
}

absl::Status UnknownSection(std::string_view section) {
  std::set<std::string_view> known;
  for (const Field& field : Fields()) known.insert(field.section);
  return InvalidArgument("unknown section [{}]; there are {}", section, fmt::join(known, ", "));
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
  return InvalidArgument("unknown setting {}; section [{}] has {}", full, section,
                         fmt::join(known, ", "));
}

absl::Status SetField(const Field& field, const RawValue& value, Config& config) {
  const absl::Status status = field.set(config, value);
  if (status.ok()) return status;
  return InvalidArgument("{} = {}: {}; it takes {}", field.Name(), ToText(value), Message(status),
                         field.form);
}

}  // namespace kiln
