#include "client/cli/commands/activity_tables.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "client/cli/output/format.h"
#include "client/cli/output/table.h"
#include "storage/base/clock.h"
#include "storage/base/users.h"

namespace kiln::cli {
namespace {

// Rows of a person's table; --jobs and --verbose have all.
constexpr size_t kJobsShown = 10;

std::string Missed(uint64_t count) {
  return fmt::format("{} compiled for jobs that were warmed", FormatCount(count, "kernel"));
}

// The jobs that did something last come first.
std::vector<admin::v1::JobActivity> SortedJobs(const admin::v1::GetStatsResponse& stats) {
  std::vector<admin::v1::JobActivity> jobs(stats.jobs().begin(), stats.jobs().end());
  std::ranges::sort(jobs, std::greater(), &admin::v1::JobActivity::last_unix_ms);
  return jobs;
}

std::string UserOf(const admin::v1::JobActivity& job) {
  const std::string name = job.has_uid() ? NameOfUser(job.uid()).value_or("") : "(others)";
  return name.empty() ? std::to_string(job.uid()) : name;
}

std::string NameOf(const admin::v1::JobActivity& job) {
  return job.job().empty() ? "-" : job.job();
}

uint64_t BytesOf(const admin::v1::JobActivity& done) {
  uint64_t bytes = 0;
  for (const auto& [tier, of_tier] : done.bytes_by_tier()) bytes += of_tier;
  return bytes;
}

// What jobs and days have in common.
void AddDoneColumns(std::vector<Column>& columns) {
  for (const char* title : {"HITS", "COMPILED", "FAILED", "WARMED", "MISSED", "SAVED", "READ"}) {
    columns.push_back({title, true});
  }
}

void AddDoneCells(const admin::v1::JobActivity& done, std::vector<Cell>& cells) {
  const uint64_t numbers[] = {HitsOf(done), done.compiled(), done.failed(), done.warmed(),
                              done.missed_after_warm()};
  for (const uint64_t number : numbers) cells.emplace_back(std::to_string(number));
  cells.emplace_back(Saved(done.saved_micros()));
  cells.emplace_back(FormatBytes(BytesOf(done)));
}

}  // namespace

uint64_t HitsOf(const admin::v1::JobActivity& job) {
  return job.hot() + job.own() + job.memory() + job.disk() + job.joined();
}

std::string Saved(uint64_t micros) {
  return FormatDuration(std::chrono::microseconds(static_cast<int64_t>(micros)));
}

void PrintAllJobs(Console& console, const admin::v1::GetStatsResponse& stats) {
  std::vector<Column> columns = {{"USER", false, true}, {"JOB", false, true}};
  AddDoneColumns(columns);
  columns.push_back({"LAST", true});
  Table table(console, columns);
  uint64_t missed = 0;
  for (const admin::v1::JobActivity& job : SortedJobs(stats)) {
    std::vector<Cell> cells = {UserOf(job), NameOf(job)};
    AddDoneCells(job, cells);
    cells.emplace_back(FormatAge(job.last_unix_ms(), SystemClock().UnixMillis()));
    table.AddRow(std::move(cells));
    missed += job.missed_after_warm();
  }
  table.Flush();
  if (missed > 0) {
    console.err << fmt::format("{}\n  try: kiln why --job NAME says why\n", Missed(missed));
  }
}

void PrintDays(Console& console, const admin::v1::GetStatsResponse& stats) {
  std::vector<Column> columns = {{"DAY", false}};
  AddDoneColumns(columns);
  Table table(console, columns);
  for (const admin::v1::DayActivity& day : stats.days()) {
    std::vector<Cell> cells = {day.date()};
    AddDoneCells(day.done(), cells);
    table.AddRow(std::move(cells));
  }
  table.Flush();
}

void PrintJobs(Console& console, const admin::v1::GetStatsResponse& stats, bool is_verbose) {
  const std::vector<admin::v1::JobActivity> jobs = SortedJobs(stats);
  const size_t shown = is_verbose ? jobs.size() : std::min(jobs.size(), kJobsShown);
  if (shown == 0) return;
  Table table(console, {{"USER", false, true},
                        {"JOB", false, true},
                        {"HITS", true},
                        {"HOT", true},
                        {"OWN", true},
                        {"COMPILED", true},
                        {"FAILED", true},
                        {"SAVED", true},
                        {"LAST", true}});
  for (size_t i = 0; i < shown; ++i) {
    const admin::v1::JobActivity& job = jobs[i];
    table.AddRow({UserOf(job), NameOf(job), std::to_string(HitsOf(job)), std::to_string(job.hot()),
                  std::to_string(job.own()), std::to_string(job.compiled()),
                  std::to_string(job.failed()), Saved(job.saved_micros()),
                  FormatAge(job.last_unix_ms(), SystemClock().UnixMillis())});
  }
  console.out << console.Styled("Jobs", Style::kBold) << '\n';
  table.Flush();
  if (shown < jobs.size()) {
    console.out << fmt::format("{} more: kiln stats --jobs\n", jobs.size() - shown);
  }
  uint64_t missed = 0;
  for (const admin::v1::JobActivity& job : jobs) missed += job.missed_after_warm();
  if (missed > 0) console.out << fmt::format("{}: kiln stats --jobs\n", Missed(missed));
}

}  // namespace kiln::cli
