// A source for a real compiler that is small and as many as one likes.
#pragma once

#include <string>

namespace kiln {

// Adds `number` to each of 128 floats: another number, another key, another binary.
inline std::string SimpleSource(int number) {
  return R"(module {
  tt.func public @simple(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %a = tt.addptr %p, %r : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %a : tensor<128x!tt.ptr<f32>>
    %c = arith.constant dense<)" +
         std::to_string(number) + R"(.0> : tensor<128xf32>
    %s = arith.addf %v, %c : tensor<128xf32>
    tt.store %a, %s : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
)";
}

}  // namespace kiln
