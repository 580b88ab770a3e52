#include "daemon/rpc/activity_report.h"

#include <chrono>
#include <string>
#include <utility>

#include "daemon/messages/text.h"

namespace kiln {
namespace {

namespace pb = admin::v1;

std::string DateOf(int64_t day_since_1970) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(day_since_1970))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

// Fills in what `counts` say.
void ShowCounts(const ActivityCounts& counts, pb::JobActivity& shown) {
  constexpr std::pair<ActivityKind, const char*> kSparing[] = {{ActivityKind::kHot, "hot"},
                                                               {ActivityKind::kOwn, "own"},
                                                               {ActivityKind::kMemory, "memory"},
                                                               {ActivityKind::kDisk, "disk"},
                                                               {ActivityKind::kJoined, "joined"}};
  const auto of = [&counts](ActivityKind kind) { return counts[static_cast<size_t>(kind)]; };
  shown.set_hot(of(ActivityKind::kHot).kernels);
  shown.set_own(of(ActivityKind::kOwn).kernels);
  shown.set_memory(of(ActivityKind::kMemory).kernels);
  shown.set_disk(of(ActivityKind::kDisk).kernels);
  shown.set_joined(of(ActivityKind::kJoined).kernels);
  shown.set_compiled(of(ActivityKind::kCompiled).kernels);
  shown.set_failed(of(ActivityKind::kFailed).kernels);
  shown.set_warmed(of(ActivityKind::kWarmed).kernels);
  shown.set_missed_after_warm(of(ActivityKind::kMissed).kernels);
  for (const auto& [kind, name] : kSparing) {
    const ActivityCount count = of(kind);
    shown.set_saved_micros(shown.saved_micros() + count.saved_micros);
    if (count.saved_micros > 0) (*shown.mutable_saved_micros_by_tier())[name] = count.saved_micros;
    if (count.bytes > 0) (*shown.mutable_bytes_by_tier())[name] = count.bytes;
  }
}

}  // namespace

void ShowActivity(const Activity& activity, std::optional<uid_t> uid, pb::GetStatsResponse& out) {
  out.set_counted_since_unix_ms(activity.since_unix_ms());
  for (const JobActivity& job : activity.List(uid)) {
    pb::JobActivity& shown = *out.add_jobs();
    if (job.uid != Activity::kOtherUsers) shown.set_uid(job.uid);
    shown.set_job(ToUtf8(job.job));
    ShowCounts(job.counts, shown);
    shown.set_last_unix_ms(job.last_unix_ms);
  }
  if (uid) return;
  for (const DayActivity& day : activity.Days()) {
    pb::DayActivity& shown = *out.add_days();
    shown.set_date(DateOf(day.day));
    ShowCounts(day.counts, *shown.mutable_done());
  }
}

}  // namespace kiln
