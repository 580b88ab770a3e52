// Goes through the fields of a protobuf message. A field of another wire type than the schema's is
// an error, as a truncated one is; fields that nobody asks for are skipped.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <vector>

namespace kiln::graph {

// All throw protozero::exception.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view bytes) : reader_(bytes.data(), bytes.size()) {}

  bool Next() {
    if (is_unread_) reader_.skip();
    return is_unread_ = reader_.next();
  }
  uint32_t number() const { return reader_.tag(); }

  int64_t Integer() {
    Take(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  float Float() {
    Take(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  std::string_view Text() {
    Take(protozero::pbf_wire_type::length_delimited);
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  ProtoFields Message() { return ProtoFields(Text()); }

  // A repeated number is packed or not, whatever the schema says.
  template <typename Number>
  void AppendTo(std::vector<Number>& numbers) {
    using Reader = protozero::pbf_reader;
    using Wire = protozero::pbf_wire_type;
    if constexpr (std::is_same_v<Number, float>) {
      Append(Wire::fixed32, &Reader::get_packed_float, &Reader::get_float, numbers);
    } else if constexpr (std::is_same_v<Number, double>) {
      Append(Wire::fixed64, &Reader::get_packed_double, &Reader::get_double, numbers);
    } else if constexpr (std::is_same_v<Number, uint64_t>) {
      Append(Wire::varint, &Reader::get_packed_uint64, &Reader::get_uint64, numbers);
    } else if constexpr (std::is_same_v<Number, int32_t>) {
      Append(Wire::varint, &Reader::get_packed_int32, &Reader::get_int32, numbers);
    } else {
      static_assert(std::is_same_v<Number, int64_t>);
      Append(Wire::varint, &Reader::get_packed_int64, &Reader::get_int64, numbers);
    }
  }

 private:
  void Take(protozero::pbf_wire_type type) {
    if (!reader_.has_wire_type(type)) throw protozero::unknown_pbf_wire_type_exception();
    is_unread_ = false;
  }
  template <typename Range, typename Number>
  void Append(protozero::pbf_wire_type one_type, Range (protozero::pbf_reader::*packed)(),
              Number (protozero::pbf_reader::*one)(), std::vector<Number>& numbers) {
    if (reader_.has_wire_type(protozero::pbf_wire_type::length_delimited)) {
      is_unread_ = false;
      for (const Number number : (reader_.*packed)()) numbers.push_back(number);
    } else {
      Take(one_type);
      numbers.push_back((reader_.*one)());
    }
  }

  protozero::pbf_reader reader_;
  bool is_unread_ = false;
};

}  // namespace kiln::graph
