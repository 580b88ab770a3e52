// What was done for jobs, and on days, as tables for people.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/output/console.h"
#include "kiln/admin/v1/admin_service.pb.h"

namespace kiln::cli {

[[nodiscard]] uint64_t HitsOf(const admin::v1::JobActivity& job);
// Time of compiles that were spared.
[[nodiscard]] std::string Saved(uint64_t micros);

// The jobs that did something last, under a title; or all.
void PrintJobs(Console& console, const admin::v1::GetStatsResponse& stats, bool is_verbose);
// Every job with every number, and on standard error what to do about misses after a warm.
void PrintAllJobs(Console& console, const admin::v1::GetStatsResponse& stats);
void PrintDays(Console& console, const admin::v1::GetStatsResponse& stats);

}  // namespace kiln::cli
