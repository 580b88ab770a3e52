#include "daemon/policy/memory_estimator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace kiln {
namespace {

constexpr double kBucketsPerOctave = 4;
constexpr double kFirstBucketBytes = limits::kMiB;
constexpr double kQuantile = 0.95;
// A compile counts half as much after 69 others of its class.
constexpr float kDecay = 0.99F;
// Until so many have been seen, a high quantile says little.
constexpr uint64_t kSeenMin = 8;
constexpr size_t kSmallestSizeClassBytes = 4 * limits::kKiB;

size_t BucketOf(uint64_t bytes, size_t buckets) {
  const double octaves = std::log2(std::max(static_cast<double>(bytes) / kFirstBucketBytes, 1.0));
  return std::min(static_cast<size_t>(kBucketsPerOctave * octaves), buckets - 1);
}

uint64_t UpperEdge(size_t bucket) {
  return static_cast<uint64_t>(kFirstBucketBytes *
                               std::exp2(static_cast<double>(bucket + 1) / kBucketsPerOctave));
}

}  // namespace

uint64_t MemoryEstimator::BytesFor(const CompileJob& job) const {
  const auto found = classes_.find(ClassOf(job));
  if (found == classes_.end()) return default_bytes_;
  const uint64_t learnt = HighQuantile(found->second);
  return found->second.seen < kSeenMin ? std::max(learnt, default_bytes_) : learnt;
}

void MemoryEstimator::Learn(const CompileJob& job, uint64_t peak_bytes) {
  if (peak_bytes == 0) return;
  Histogram& histogram = classes_[ClassOf(job)];
  for (float& weight : histogram.weights) weight *= kDecay;
  histogram.weights[BucketOf(peak_bytes, kBuckets)] += 1;
  ++histogram.seen;
}

MemoryEstimator::Class MemoryEstimator::ClassOf(const CompileJob& job) {
  size_t bytes = job.request.source.text.size();
  for (const SourceHeader& header : job.request.headers) bytes += header.text.size();
  return {job.toolchain->fingerprint, job.request.target.backend,
          static_cast<int>(std::bit_width(bytes / kSmallestSizeClassBytes))};
}

uint64_t MemoryEstimator::HighQuantile(const Histogram& histogram) {
  const float all = std::accumulate(histogram.weights.begin(), histogram.weights.end(), 0.0F);
  float below = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    below += histogram.weights[bucket];
    if (below >= kQuantile * all) return UpperEdge(bucket);
  }
  return UpperEdge(kBuckets - 1);
}

}  // namespace kiln
