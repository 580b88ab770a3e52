#include "client/jax/launch_state.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace kiln::jax {
namespace {

std::atomic<uint64_t> states_made{0};
std::atomic<uint64_t> states_live{0};

// REQUIRES: there is one.
ffi::AnyBuffer BufferAt(const ffi::RemainingRets& results, size_t index) {
  return **results.get<ffi::AnyBuffer>(index);
}

uint64_t AddressOf(const ffi::AnyBuffer& buffer) {
  return reinterpret_cast<uint64_t>(buffer.untyped_data());
}

}  // namespace

ffi::TypeId LaunchState::id = {};

LaunchState::LaunchState() {
  states_made.fetch_add(1, std::memory_order_relaxed);
  states_live.fetch_add(1, std::memory_order_relaxed);
}
LaunchState::~LaunchState() { states_live.fetch_sub(1, std::memory_order_relaxed); }

uint64_t LaunchState::made() { return states_made.load(std::memory_order_relaxed); }
uint64_t LaunchState::live() { return states_live.load(std::memory_order_relaxed); }

ffi::Error LaunchState::Wrong(const std::string& why) const {
  return Named(ffi::Error::InvalidArgument(why));
}
ffi::Error LaunchState::Named(const ffi::Error& error) const {
  return ffi::Error(*error.errc(), "kiln_launch of " + name_ + ": " + error.message());
}

ffi::ErrorOr<std::unique_ptr<LaunchState>> LaunchState::Make(kiln_launch_runtime* runtime,
                                                             const CallAttributes& call) {
  std::unique_ptr<LaunchState> state(new LaunchState);
  state->name_ = call.name;
  auto kernel = SharedKernel::Of(runtime, call.binary, call.metadata);
  if (kernel.has_error()) return ffi::Unexpected(state->Named(kernel.error()));
  state->kernel_ = *std::move(kernel);
  ffi::Error error = state->Fill(call);
  if (error.failure()) return ffi::Unexpected(std::move(error));
  error = state->kernel_->Prepare();
  if (error.failure()) return ffi::Unexpected(state->Named(error));
  return state;
}

ffi::Error LaunchState::Fill(const CallAttributes& call) {
  scalars_ = call.scalars;
  zeroed_ = call.zeroed;
  grid_ = call.grid;
  const kiln_launch_artifact_info& info = kernel_->info();
  if (call.parameters.size() != info.parameter_count) {
    return Wrong("attribute \"parameters\" has " + std::to_string(call.parameters.size()) +
                 " letters, the kernel has " + std::to_string(info.parameter_count) +
                 " parameters");
  }
  if (call.parameters.size() > kParametersMax) {
    return Wrong("it has more than " + std::to_string(kParametersMax) + " parameters");
  }
  const auto tensors = ReadTensors(call.descriptors);
  if (tensors.has_error()) return Named(tensors.error());
  ffi::Error error = FillParameters(call.parameters, *tensors);
  if (error.failure()) return error;
  error = FillScratch(call.global_scratch, info.global_scratch_bytes, global_scratch_);
  if (error.failure()) return error;
  return FillScratch(call.profile_scratch, info.profile_scratch_bytes, profile_scratch_);
}

ffi::Error LaunchState::FillParameters(std::string_view letters,
                                       const std::vector<kiln_launch_tensor>& tensors) {
  size_t scalar_bytes = 0, descriptors = 0;
  for (size_t i = 0; i < letters.size();) {
    const char letter = letters[i];
    const auto index = static_cast<uint32_t>(i);
    const bool is_descriptor = letter == 'd';
    ffi::Error error = CheckParameter(letter, index, kernel_->Parameter(index));
    if (error.failure()) return error;
    const size_t end = std::min(letters.find_first_not_of('.', i + 1), letters.size());
    if (!is_descriptor && end != i + 1) {
      return Wrong("attribute \"parameters\" has a '.' behind no descriptor");
    }
    arguments_.resize(end);
    if (is_descriptor || letter == 'a') {
      arrays_.push_back({i, nullptr});
    } else {
      arguments_[i] = scalars_.data() + scalar_bytes;
      scalar_bytes += static_cast<size_t>(letter - '0');
    }
    if (is_descriptor && descriptors < tensors.size()) {
      arrays_.back().descriptor = std::make_unique<ArrayDescriptor>(
          index, static_cast<uint32_t>(end - i), tensors[descriptors]);
    }
    descriptors += is_descriptor ? 1 : 0;
    i = end;
  }
  if (scalar_bytes != scalars_.size()) {
    return Wrong("attribute \"scalars\" has " + std::to_string(scalars_.size()) +
                 " bytes, \"parameters\" says " + std::to_string(scalar_bytes));
  }
  if (descriptors != tensors.size()) {
    return Wrong("attribute \"descriptors\" has " + std::to_string(tensors.size()) +
                 ", \"parameters\" says " + std::to_string(descriptors));
  }
  return ffi::Error::Success();
}

ffi::Error LaunchState::CheckParameter(char letter, uint32_t index,
                                       const kiln_launch_parameter& parameter) {
  if (letter == 'd') return ffi::Error::Success();  // the launch library knows its forms
  if (letter == '.') return Wrong("attribute \"parameters\" has a '.' behind no descriptor");
  const uint32_t bytes = letter == 'a' ? 8 : static_cast<uint32_t>(letter - '0');
  const std::string_view type = parameter.type;
  const bool is_pointer = type.starts_with('*') || type.starts_with("!tt.ptr");
  if (parameter.bytes == bytes && is_pointer == (letter == 'a')) return ffi::Error::Success();
  return Wrong("attribute \"parameters\" says " + std::string(1, letter) + " of parameter " +
               std::to_string(index) + ", which is " + std::string(type));
}

ffi::Error LaunchState::FillScratch(int32_t result, uint64_t bytes_each, Scratch& scratch) const {
  scratch.bytes = bytes_each;
  // As many as XLA could never allocate, so that no product is too large.
  for (const uint64_t factor : {uint64_t{grid_[0]}, uint64_t{grid_[1]}, uint64_t{grid_[2]},
                                uint64_t{kernel_->info().num_ctas}}) {
    if (__builtin_mul_overflow(scratch.bytes, factor, &scratch.bytes)) scratch.bytes = UINT64_MAX;
  }
  scratch.result = result;
  // The library's own would be nodes that allocate, which a graph inside another may not have.
  if (scratch.bytes > 0 && result < 0) {
    return Wrong(std::string("attribute \"") + scratch.attribute + "\" is -1, and the grid needs " +
                 std::to_string(scratch.bytes) + " bytes of it");
  }
  return ffi::Error::Success();
}

ffi::Error LaunchState::Execute(const Place& place, const ffi::RemainingArgs& arguments,
                                const ffi::RemainingRets& results) const {
  ffi::Error error = CheckBuffers(arguments, results);
  if (error.failure()) return error;
  const ffi::ErrorOr<kiln_launch_kernel*> kernel = kernel_->On(place.device);
  if (kernel.has_error()) return Named(kernel.error());
  error = SetZeroes(*kernel, place, results);
  if (error.failure()) return error;

  kiln_launch_config config{};
  config.size = sizeof config;
  config.stream = place.stream;
  std::copy(grid_.begin(), grid_.end(), config.grid);
  uint64_t addresses[kParametersMax];
  const void* pointers[kParametersMax];
  std::copy(arguments_.begin(), arguments_.end(), pointers);
  size_t next = 0;
  const auto add = [&](const ffi::AnyBuffer& buffer) { addresses[next++] = AddressOf(buffer); };
  for (size_t i = 0; i < arguments.size(); ++i) add(*arguments.get<ffi::AnyBuffer>(i));
  for (size_t i = 0; i < results.size(); ++i) {
    if (HasParameter(i)) add(BufferAt(results, i));
  }
  std::vector<ArrayDescriptor::Made> descriptors;  // until they are launched
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const void** argument = &pointers[arrays_[i].place];
    if (arrays_[i].descriptor == nullptr) {
      *argument = &addresses[i];
      continue;
    }
    const auto made = arrays_[i].descriptor->At(addresses[i], *kernel, argument);
    if (made.has_error()) return Named(made.error());
    descriptors.push_back(*made);
  }
  for (const auto& [scratch, address] : {std::pair{&global_scratch_, &config.global_scratch},
                                         std::pair{&profile_scratch_, &config.profile_scratch}}) {
    if (scratch->result < 0) continue;
    *address = AddressOf(BufferAt(results, static_cast<size_t>(scratch->result)));
  }
  const auto code =
      kiln_launch_enqueue(*kernel, &config, pointers, static_cast<uint32_t>(arguments_.size()));
  return code == 0 ? ffi::Error::Success() : Named(LaunchError(code));
}

ffi::Error LaunchState::CheckBuffers(const ffi::RemainingArgs& arguments,
                                     const ffi::RemainingRets& results) const {
  if (results.size() != zeroed_.size()) {
    return Wrong("attribute \"zeroed\" is for " + std::to_string(zeroed_.size()) +
                 " results, the call has " + std::to_string(results.size()));
  }
  size_t arrays = arguments.size();
  for (size_t i = 0; i < results.size(); ++i) arrays += HasParameter(i) ? 1 : 0;
  if (arrays != arrays_.size()) {
    return Wrong("attribute \"parameters\" has " + std::to_string(arrays_.size()) +
                 " arrays, the call has " + std::to_string(arrays) + " with parameters");
  }
  for (const Scratch* scratch : {&global_scratch_, &profile_scratch_}) {
    if (scratch->result < 0) continue;
    const auto index = static_cast<size_t>(scratch->result);
    const uint64_t bytes = BufferAt(results, index).size_bytes();
    if (bytes >= scratch->bytes) continue;
    return Wrong("result " + std::to_string(index) + " has " + std::to_string(bytes) +
                 " bytes, the grid needs " + std::to_string(scratch->bytes) + " of " +
                 scratch->attribute);
  }
  return ffi::Error::Success();
}

ffi::Error LaunchState::SetZeroes(kiln_launch_kernel* kernel, const Place& place,
                                  const ffi::RemainingRets& results) const {
  for (size_t i = zeroed_.find('1'); i != std::string::npos; i = zeroed_.find('1', i + 1)) {
    const ffi::AnyBuffer buffer = BufferAt(results, i);
    const auto code =
        kiln_launch_fill(kernel, place.stream, AddressOf(buffer), 0, buffer.size_bytes());
    if (code != 0) return Named(LaunchError(code));
  }
  return ffi::Error::Success();
}

}  // namespace kiln::jax
