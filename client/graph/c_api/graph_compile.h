// The part of <kiln/graph.h> that has the daemon compile a plan.
#pragma once

#include <kiln/graph.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln::graph {

// The compiles of plans that are to be asked for, and those under way. CompileMany calls Next on
// one thread and Answer on another.
class Plan::Batch {
 public:
  using Sink = std::function<void(Plan& plan, uint32_t kernel, const absl::Status& status)>;

  Batch(const std::vector<Plan*>& plans, Sink sink) : sink_(std::move(sink)) {
    for (Plan* plan : plans) {
      const uint32_t count = plan->Info().kernels;
      known_[plan] = count;
      for (uint32_t kernel = 0; kernel < count; ++kernel) {
        if (!plan->responses_.contains(kernel)) waiting_.push_back({plan, kernel});
      }
    }
  }

  absl::Status Run(kiln::Client& client, const kiln::ManyOptions& options) {
    absl::Status status = client.CompileMany(
        [this](v1::CompileRequest& request) { return Next(request); },
        [this](uint64_t index, const absl::StatusOr<v1::CompileResponse>& answer) {
          Answer(index, answer);
        },
        options);
    return status.ok() ? failure_ : status;
  }

 private:
  struct Place {
    Plan* plan = nullptr;
    uint32_t kernel = 0;
  };

  // Waits while an answer under way may still make another request. False: there are no more.
  bool Next(v1::CompileRequest& request) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty() || under_way_ == 0; });
      if (waiting_.empty()) return false;
      const Place place = waiting_.front();
      waiting_.pop_front();
      const kiln_graph_kernel facts = place.plan->Kernel(place.kernel);
      if (facts.step < 0) continue;  // another kernel of its section made it the engine's
      request = RequestOf(facts);
      asked_.push_back(place);
      ++under_way_;
      return true;
    }
  }

  void Answer(uint64_t index, const absl::StatusOr<v1::CompileResponse>& answer) {
    Place place;
    bool is_final = true;
    {
      const std::lock_guard lock(mutex_);
      place = asked_[index];
      Plan& plan = *place.plan;
      --under_way_;
      if (answer.ok()) {
        plan.responses_[place.kernel] = answer->SerializeAsString();
      } else if (IsOfTheDaemon(answer.status())) {
        failure_ = answer.status();
      } else if (kiln_graph_plan_use_next_compiler(
                     plan.get(), place.kernel, std::string(answer.status().message()).c_str()) ==
                 KILN_GRAPH_OK) {
        waiting_.push_back(place);
        // A kernel with grid barriers has been separated into others.
        uint32_t& known = known_[&plan];
        for (const uint32_t count = plan.Info().kernels; known < count; ++known) {
          waiting_.push_back({&plan, known});
        }
        is_final = false;
      }
    }
    changed_.notify_one();
    if (is_final && sink_) sink_(*place.plan, place.kernel, answer.status());
  }

  // Whether another compiler would fail alike.
  static bool IsOfTheDaemon(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
           absl::IsCancelled(status) || absl::IsResourceExhausted(status) ||
           absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
  }

  static v1::CompileRequest RequestOf(const kiln_graph_kernel& kernel) {
    v1::CompileRequest request;
    const std::string_view kind = kernel.kind;
    request.mutable_source()->set_kind(kind == "ttir"   ? v1::SOURCE_KIND_TTIR
                                       : kind == "cuda" ? v1::SOURCE_KIND_CUDA_CXX
                                       : kind == "ptx"  ? v1::SOURCE_KIND_PTX
                                                        : v1::SOURCE_KIND_OPENCL);
    request.mutable_source()->set_text(kernel.text, kernel.text_bytes);
    request.mutable_source()->set_name(kernel.entry);
    const std::string_view target = kernel.target;  // "hip:gfx942", "hip:gfx942:64"
    const size_t colon = target.find(':');
    const std::string_view architecture = target.substr(colon + 1);
    const size_t second = architecture.find(':');
    request.mutable_target()->set_backend(std::string(target.substr(0, colon)));
    request.mutable_target()->set_architecture(std::string(architecture.substr(0, second)));
    if (second != std::string_view::npos) {
      request.mutable_target()->set_warp_size(
          std::atoi(std::string(architecture.substr(second + 1)).c_str()));
    }
    if (kernel.num_warps != 0) request.mutable_launch()->set_num_warps(kernel.num_warps);
    return request;
  }

  const Sink sink_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const Plan*, uint32_t> known_;  // how many kernels
  std::deque<Place> waiting_;
  std::vector<Place> asked_;  // by the index of their requests
  size_t under_way_ = 0;
  absl::Status failure_;
};

inline absl::Status Plan::Compile(kiln::Client& client, const KernelSink& sink,
                                  const kiln::ManyOptions& options) {
  Batch::Sink told;
  if (sink) {
    told = [&sink](Plan&, uint32_t kernel, const absl::Status& status) { sink(kernel, status); };
  }
  return Batch({this}, std::move(told)).Run(client, options);
}

inline absl::Status Plans::Compile(kiln::Client& client, const KernelSink& sink,
                                   const kiln::ManyOptions& options) {
  std::vector<Plan*> all;
  for (Plan& plan : plans_) all.push_back(&plan);
  return Plan::Batch(all, sink).Run(client, options);
}

}  // namespace kiln::graph
