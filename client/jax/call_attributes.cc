#include "client/jax/call_attributes.h"

#include <string>
#include <type_traits>

namespace kiln::jax {
namespace {

ffi::Error Wrong(std::string_view attribute, std::string_view why) {
  return ffi::Error::InvalidArgument("kiln_launch: attribute \"" + std::string(attribute) + "\" " +
                                     std::string(why));
}

// Reads attributes until one is wrong.
class Reader {
 public:
  explicit Reader(const ffi::Dictionary& given) : given_(given) {}

  template <typename Value>
  void Read(std::string_view attribute, Value& value) {
    if (!given_.contains(attribute)) return Fail(attribute, "is missing");
    const ffi::ErrorOr<Value> read = given_.get<Value>(attribute);
    if (read.has_error()) {
      return Fail(attribute, std::is_integral_v<Value> ? "is not an i32" : "is not a string");
    }
    value = *read;
  }
  void ReadFlags(std::string_view attribute, std::string_view letters, std::string_view& value) {
    Read(attribute, value);
    if (value.find_first_not_of(letters) != std::string_view::npos) {
      Fail(attribute, "has another letter than " + std::string(letters));
    }
  }
  void ReadGrid(std::string_view attribute, uint32_t& value) {
    int32_t programs = 0;
    Read(attribute, programs);
    if (programs < 0) Fail(attribute, "is " + std::to_string(programs) + ", less than 0");
    value = static_cast<uint32_t>(programs);
  }
  const ffi::Error& error() const { return error_; }

 private:
  void Fail(std::string_view attribute, std::string_view why) {
    if (error_.success()) error_ = Wrong(attribute, why);
  }

  const ffi::Dictionary& given_;
  ffi::Error error_;
};

}  // namespace

ffi::ErrorOr<CallAttributes> ReadAttributes(const ffi::Dictionary& given) {
  CallAttributes call{};
  Reader reader(given);
  reader.Read("name", call.name);
  reader.Read("binary", call.binary);
  reader.Read("metadata", call.metadata);
  reader.ReadFlags("parameters", "a1248d.", call.parameters);
  reader.Read("scalars", call.scalars);
  if (given.contains("descriptors")) reader.Read("descriptors", call.descriptors);
  reader.ReadGrid("grid_x", call.grid[0]);
  reader.ReadGrid("grid_y", call.grid[1]);
  reader.ReadGrid("grid_z", call.grid[2]);
  reader.ReadFlags("zeroed", "01-", call.zeroed);
  reader.Read("global_scratch", call.global_scratch);
  reader.Read("profile_scratch", call.profile_scratch);
  if (reader.error().failure()) return ffi::Unexpected(reader.error());
  const auto results = static_cast<int32_t>(call.zeroed.size());
  for (const auto& [attribute, result] : {std::pair{"global_scratch", call.global_scratch},
                                          std::pair{"profile_scratch", call.profile_scratch}}) {
    if (result < -1 || result >= results) {
      return ffi::Unexpected(Wrong(attribute, "is " + std::to_string(result) + ": there are " +
                                                  std::to_string(results) + " results"));
    }
  }
  return call;
}

}  // namespace kiln::jax
