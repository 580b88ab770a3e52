// Operators whose rule is C++: what they take. The attributes are those of ONNX's newest version,
// and of older ones where those still come.
#include "client/graph/operators/op_rows.h"

namespace kiln::graph {
namespace {

using Cat = OpCategory;
using Rule = DTypeRule;

// clang-format off
constexpr OpRow kStructuralRows[] = {
    // Constants.
    {.name = "Constant", .category = Cat::kConstant, .inputs = "0", .attributes = "value_float:float value_int:int value_floats:floats value_ints:ints", .dtype = Rule::kOwn},
    {.name = "ConstantOfShape", .category = Cat::kConstant, .attributes = "value=0.0 dtype='f32'", .aliases = "create", .dtype = Rule::kAttribute},
    {.name = "Fill", .category = Cat::kConstant, .inputs = "2", .aliases = "fill", .dtype = Rule::kSecond},
    {.name = "ZerosLike", .category = Cat::kConstant, .attributes = "dtype:dtype", .aliases = "zeros_like zeroslike zeros_as aten::zeros_like", .dtype = Rule::kAttribute},
    {.name = "OnesLike", .category = Cat::kConstant, .attributes = "dtype:dtype", .aliases = "ones_like ones_as aten::ones_like", .dtype = Rule::kAttribute},
    {.name = "EyeLike", .category = Cat::kConstant, .attributes = "dtype:dtype k=0", .dtype = Rule::kAttribute},
    {.name = "Range", .category = Cat::kConstant, .inputs = "3", .aliases = "range arange"},
    // Products.
    {.name = "MatMul", .category = Cat::kMatMul, .inputs = "2", .aliases = "matmul mmul BatchMatMul BatchMatMulV2 aten::matmul aten::mm aten::bmm"},
    {.name = "Gemm", .category = Cat::kMatMul, .inputs = "2..3", .attributes = "alpha=1.0 beta=1.0 transA=0 transB=0", .aliases = "gemm"},
    {.name = "FusedMatMul", .category = Cat::kMatMul, .inputs = "2", .attributes = "alpha=1.0 transA=0 transB=0 transBatchA=0 transBatchB=0"},
    {.name = "Linear", .category = Cat::kMatMul, .inputs = "2..3", .aliases = "linear aten::linear"},
    {.name = "MatMulInteger", .category = Cat::kMatMul, .inputs = "2..4", .dtype = Rule::kOwn},
    {.name = "QLinearMatMul", .category = Cat::kMatMul, .types = "i", .inputs = "8", .dtype = Rule::kOwn},
    {.name = "Einsum", .category = Cat::kMatMul, .inputs = "1..", .attributes = "equation:string!", .aliases = "einsum"},
    {.name = "Det", .category = Cat::kMatMul},
    // Reductions.
    {.name = "ReduceSum", .category = Cat::kReduction, .types = "bif", .aliases = "reduce_sum aten::sum"},
    {.name = "ReduceMean", .category = Cat::kReduction, .aliases = "reduce_mean aten::mean"},
    {.name = "ReduceMax", .category = Cat::kReduction, .types = "bif", .aliases = "reduce_max aten::amax"},
    {.name = "ReduceMin", .category = Cat::kReduction, .types = "bif", .aliases = "reduce_min aten::amin"},
    {.name = "ReduceProd", .category = Cat::kReduction, .types = "bif", .aliases = "Prod reduce_prod aten::prod"},
    {.name = "ReduceL1", .category = Cat::kReduction, .aliases = "reduce_norm1"},
    {.name = "ReduceL2", .category = Cat::kReduction, .aliases = "reduce_norm2 EuclideanNorm"},
    {.name = "ReduceLogSum", .category = Cat::kReduction},
    {.name = "ReduceLogSumExp", .category = Cat::kReduction, .aliases = "reduce_logsumexp logsumexp aten::logsumexp"},
    {.name = "ReduceSumSquare", .category = Cat::kReduction, .aliases = "reduce_sqnorm"},
    {.name = "ReduceAll", .category = Cat::kReduction, .types = "bif", .aliases = "All all aten::all", .dtype = Rule::kBool},
    {.name = "ReduceAny", .category = Cat::kReduction, .types = "bif", .aliases = "Any any aten::any", .dtype = Rule::kBool},
    {.name = "ArgMax", .category = Cat::kReduction, .inputs = "1", .attributes = "axis=0 keepdims=1 select_last_index=0", .aliases = "argmax aten::argmax", .dtype = Rule::kI64},
    {.name = "ArgMin", .category = Cat::kReduction, .inputs = "1", .attributes = "axis=0 keepdims=1 select_last_index=0", .aliases = "argmin aten::argmin", .dtype = Rule::kI64},
    {.name = "CumSum", .category = Cat::kReduction, .inputs = "2", .attributes = "exclusive=0 reverse=0", .aliases = "Cumsum cumsum"},
    {.name = "CumProd", .category = Cat::kReduction, .inputs = "2", .attributes = "exclusive=0 reverse=0", .aliases = "Cumprod cumprod"},
    {.name = "GlobalAveragePool", .category = Cat::kReduction, .types = "f", .inputs = "1"},
    {.name = "GlobalMaxPool", .category = Cat::kReduction, .types = "f", .inputs = "1"},
    {.name = "GlobalLpPool", .category = Cat::kReduction, .types = "f", .inputs = "1", .attributes = "p=2"},
    {.name = "AveragePool", .category = Cat::kReduction, .types = "f", .inputs = "1", .attributes = "auto_pad='NOTSET' ceil_mode=0 count_include_pad=0 dilations:ints kernel_shape:ints! pads:ints strides:ints", .aliases = "AvgPool"},
    {.name = "MaxPool", .category = Cat::kReduction, .inputs = "1", .outputs = "1..2", .attributes = "auto_pad='NOTSET' ceil_mode=0 dilations:ints kernel_shape:ints! pads:ints storage_order=0 strides:ints"},
    {.name = "LpPool", .category = Cat::kReduction, .types = "f", .inputs = "1", .attributes = "auto_pad='NOTSET' ceil_mode=0 dilations:ints kernel_shape:ints! p=2 pads:ints strides:ints"},
    // Normalizations.
    {.name = "Softmax", .category = Cat::kNormalization, .attributes = "axis=-1", .aliases = "softmax aten::softmax"},
    {.name = "LogSoftmax", .category = Cat::kNormalization, .attributes = "axis=-1", .aliases = "log_softmax logsoftmax aten::log_softmax"},
    {.name = "Hardmax", .category = Cat::kNormalization, .attributes = "axis=-1"},
    {.name = "LayerNormalization", .category = Cat::kNormalization, .inputs = "2..3", .outputs = "1..3", .attributes = "axis=-1 epsilon=1e-5 stash_type=1", .aliases = "LayerNorm layer_norm aten::layer_norm"},
    {.name = "RMSNormalization", .category = Cat::kNormalization, .inputs = "2", .attributes = "axis=-1 epsilon=1e-5 stash_type=1", .aliases = "RMSNorm rms_norm SimplifiedLayerNormalization aten::rms_norm"},
    {.name = "BatchNormalization", .category = Cat::kNormalization, .inputs = "5", .outputs = "1..3", .attributes = "epsilon=1e-5 momentum=0.9 training_mode=0 spatial=1", .aliases = "batchnorm FusedBatchNormV3"},
    {.name = "InstanceNormalization", .category = Cat::kNormalization, .inputs = "3", .attributes = "epsilon=1e-5", .aliases = "instance_norm"},
    {.name = "GroupNormalization", .category = Cat::kNormalization, .inputs = "3", .attributes = "epsilon=1e-5 num_groups:int! stash_type=1", .aliases = "group_norm"},
    {.name = "LpNormalization", .category = Cat::kNormalization, .attributes = "axis=-1 p=2"},
    {.name = "MeanVarianceNormalization", .category = Cat::kNormalization, .attributes = "axes:ints"},
    {.name = "LRN", .category = Cat::kNormalization, .attributes = "alpha=0.0001 beta=0.75 bias=1.0 size:int!", .aliases = "lrn"},
    // Attention.
    {.name = "Attention", .category = Cat::kAttention, .inputs = "3..7", .outputs = "1..4", .attributes = "is_causal=0 kv_num_heads:int left_window_size=-1 q_num_heads:int qk_matmul_output_mode=0 right_window_size=-1 scale:float softcap=0.0 softmax_precision:int", .aliases = "scaled_dot_product_attention dot_product_attention aten::scaled_dot_product_attention"},
    {.name = "GroupQueryAttention", .category = Cat::kAttention, .inputs = "3..9", .outputs = "1..3", .attributes = "num_heads:int! kv_num_heads:int! scale:float softcap=0.0 local_window_size=-1 do_rotary=0 rotary_interleaved=0"},
    {.name = "MultiHeadAttention", .category = Cat::kAttention, .inputs = "3..8", .outputs = "1..3", .attributes = "num_heads:int! scale:float unidirectional=0 mask_filter_value=-10000.0", .aliases = "multi_head_dot_product_attention"},
    // Views.
    {.name = "Reshape", .category = Cat::kShape, .inputs = "1..2", .attributes = "allowzero=0 shape:ints", .aliases = "reshape aten::reshape aten::view"},
    {.name = "Flatten", .category = Cat::kShape, .attributes = "axis=1", .aliases = "flatten"},
    {.name = "Squeeze", .category = Cat::kShape, .inputs = "1..2", .attributes = "axes:ints", .aliases = "squeeze"},
    {.name = "Unsqueeze", .category = Cat::kShape, .inputs = "1..2", .attributes = "axes:ints", .aliases = "unsqueeze ExpandDims expand_dims aten::unsqueeze"},
    {.name = "Transpose", .category = Cat::kShape, .attributes = "perm:ints", .aliases = "transpose permute aten::permute"},
    {.name = "Expand", .category = Cat::kShape, .inputs = "1..2", .attributes = "shape:ints", .aliases = "expand BroadcastTo broadcast_to aten::expand"},
    {.name = "Shape", .category = Cat::kShape, .attributes = "start=0 end:int", .aliases = "shape_of", .dtype = Rule::kI64},
    {.name = "Size", .category = Cat::kShape, .aliases = "size", .dtype = Rule::kI64},
    {.name = "Slice", .category = Cat::kShape, .inputs = "1..5", .attributes = "axes:ints starts:ints ends:ints steps:ints", .aliases = "slice StridedSlice strided_slice aten::slice"},
    {.name = "Split", .category = Cat::kShape, .inputs = "1..2", .outputs = "1..", .attributes = "axis=0 num_outputs:int split:ints", .aliases = "split SplitV split_v aten::split"},
    {.name = "Unstack", .category = Cat::kShape, .outputs = "1..", .attributes = "axis=0", .aliases = "Unpack unstack aten::unbind"},
    {.name = "DepthToSpace", .category = Cat::kShape, .attributes = "blocksize:int! mode='DCR'", .aliases = "depth_to_space"},
    {.name = "SpaceToDepth", .category = Cat::kShape, .attributes = "blocksize:int! mode='DCR'", .aliases = "space_to_depth"},
    {.name = "PixelShuffle", .category = Cat::kShape, .attributes = "upscale_factor:int!", .aliases = "pixel_shuffle aten::pixel_shuffle"},
    // Movement.
    {.name = "Concat", .category = Cat::kMovement, .inputs = "1..", .attributes = "axis:int!", .aliases = "concat ConcatV2 aten::cat"},
    {.name = "Stack", .category = Cat::kMovement, .inputs = "1..", .attributes = "axis=0", .aliases = "Pack stack aten::stack"},
    {.name = "Tile", .category = Cat::kMovement, .inputs = "1..2", .attributes = "repeats:ints", .aliases = "tile aten::repeat"},
    {.name = "Pad", .category = Cat::kMovement, .inputs = "1..4", .attributes = "mode='constant' pads:ints value=0.0", .aliases = "pad PadV2 MirrorPad"},
    {.name = "Gather", .category = Cat::kMovement, .inputs = "2", .attributes = "axis=0", .aliases = "gather GatherV2 aten::index_select"},
    {.name = "Embedding", .category = Cat::kMovement, .inputs = "2", .aliases = "embedding embedding_lookup aten::embedding"},
    {.name = "GatherElements", .category = Cat::kMovement, .inputs = "2", .attributes = "axis=0", .aliases = "take_along_axis"},
    {.name = "GatherND", .category = Cat::kMovement, .inputs = "2", .attributes = "batch_dims=0", .aliases = "GatherNd gather_nd"},
    {.name = "Scatter", .category = Cat::kMovement, .inputs = "3", .attributes = "axis=0"},
    {.name = "ScatterElements", .category = Cat::kMovement, .inputs = "3", .attributes = "axis=0 reduction='none'", .aliases = "aten::scatter"},
    {.name = "ScatterND", .category = Cat::kMovement, .inputs = "3", .attributes = "reduction='none'", .aliases = "TensorScatterUpdate scatter_nd_update"},
    {.name = "TensorScatter", .category = Cat::kMovement, .inputs = "2..3", .attributes = "axis=-2 mode='linear'"},
    {.name = "OneHot", .category = Cat::kMovement, .inputs = "3", .attributes = "axis=-1", .aliases = "onehot one_hot", .dtype = Rule::kOwn},
    {.name = "Trilu", .category = Cat::kMovement, .inputs = "1..2", .attributes = "upper=1", .aliases = "trilu MatrixBandPart"},
    {.name = "Triu", .category = Cat::kMovement, .attributes = "k=0", .aliases = "triu aten::triu"},
    {.name = "Tril", .category = Cat::kMovement, .attributes = "k=0", .aliases = "tril aten::tril"},
    {.name = "ReverseSequence", .category = Cat::kMovement, .inputs = "2", .attributes = "batch_axis=1 time_axis=0", .aliases = "reverse_sequence"},
    {.name = "Reverse", .category = Cat::kMovement, .inputs = "1..2", .attributes = "axes:ints", .aliases = "reverse ReverseV2 flip aten::flip"},
    {.name = "Roll", .category = Cat::kMovement, .inputs = "1", .attributes = "shifts:ints! axes:ints", .aliases = "roll aten::roll"},
    {.name = "Resize", .category = Cat::kMovement, .inputs = "1..4", .attributes = "antialias=0 axes:ints coordinate_transformation_mode='half_pixel' cubic_coeff_a=-0.75 exclude_outside=0 extrapolation_value=0.0 keep_aspect_ratio_policy='stretch' mode='nearest' nearest_mode='round_prefer_floor'"},
    {.name = "Upsample", .category = Cat::kMovement, .inputs = "1..2", .attributes = "mode='nearest' scales:floats", .aliases = "upsampling2d"},
    {.name = "CenterCropPad", .category = Cat::kMovement, .inputs = "2", .attributes = "axes:ints"},
    {.name = "Im2Col", .category = Cat::kMovement, .attributes = "kernel_shape:ints! dilations:ints pads:ints strides:ints", .aliases = "im2col unfold aten::im2col"},
    {.name = "Col2Im", .category = Cat::kMovement, .inputs = "3", .attributes = "dilations:ints pads:ints strides:ints", .aliases = "col2im fold aten::col2im"},
    {.name = "MaxUnpool", .category = Cat::kMovement, .inputs = "2..3", .attributes = "kernel_shape:ints! pads:ints strides:ints"},
    {.name = "GridSample", .category = Cat::kMovement, .inputs = "2", .attributes = "align_corners=0 mode='linear' padding_mode='zeros'", .aliases = "grid_sample aten::grid_sampler"},
    // Convolutions.
    {.name = "Conv", .category = Cat::kConvolution, .inputs = "2..3", .attributes = "auto_pad='NOTSET' dilations:ints group=1 kernel_shape:ints pads:ints strides:ints", .aliases = "conv1d conv2d conv3d aten::convolution aten::conv2d"},
    {.name = "ConvTranspose", .category = Cat::kConvolution, .inputs = "2..3", .attributes = "auto_pad='NOTSET' dilations:ints group=1 kernel_shape:ints output_padding:ints output_shape:ints pads:ints strides:ints", .aliases = "deconv2d deconv3d"},
    {.name = "CausalConvWithState", .category = Cat::kConvolution, .types = "f", .inputs = "2..4", .outputs = "1..2", .attributes = "activation='none'"},
    {.name = "ConvInteger", .category = Cat::kConvolution, .inputs = "2..4", .attributes = "auto_pad='NOTSET' dilations:ints group=1 kernel_shape:ints pads:ints strides:ints", .dtype = Rule::kOwn},
    {.name = "QLinearConv", .category = Cat::kConvolution, .types = "i", .inputs = "8..9", .attributes = "auto_pad='NOTSET' dilations:ints group=1 kernel_shape:ints pads:ints strides:ints", .dtype = Rule::kOwn},
    // Quantization.
    {.name = "QuantizeLinear", .category = Cat::kCast, .inputs = "2..3", .attributes = "axis=1 block_size=0 output_dtype:dtype precision=0 saturate=1", .dtype = Rule::kOwn},
    {.name = "DequantizeLinear", .category = Cat::kCast, .inputs = "2..3", .attributes = "axis=1 block_size=0 output_dtype:dtype", .dtype = Rule::kSecond},
    {.name = "DynamicQuantizeLinear", .category = Cat::kCast, .outputs = "3", .dtype = Rule::kOwn},
    // Language models.
    {.name = "RotaryEmbedding", .category = Cat::kRope, .inputs = "3..4", .attributes = "interleaved=0 num_heads=0 rotary_embedding_dim=0", .aliases = "rope rotary_embedding"},
    {.name = "SwiGLU", .category = Cat::kFused, .inputs = "1..2", .attributes = "alpha=1.0 axis=-1", .aliases = "swiglu"},
    {.name = "GeGLU", .category = Cat::kFused, .inputs = "1..2", .attributes = "axis=-1 approximate='none'", .aliases = "geglu"},
    {.name = "GLU", .category = Cat::kFused, .attributes = "axis=-1", .aliases = "glu aten::glu"},
    {.name = "SkipLayerNormalization", .category = Cat::kFused, .types = "f", .inputs = "3..5", .outputs = "1..4", .attributes = "epsilon=1e-5"},
    {.name = "SkipRMSNormalization", .category = Cat::kFused, .types = "f", .inputs = "3..4", .outputs = "1..4", .attributes = "epsilon=1e-5", .aliases = "SkipSimplifiedLayerNormalization fused_add_rms_norm"},
    {.name = "RotaryCache", .category = Cat::kFused, .inputs = "5..6", .outputs = "2", .attributes = "interleaved=0", .aliases = "rotary_and_cache"},
    // Losses.
    {.name = "NegativeLogLikelihoodLoss", .category = Cat::kReduction, .inputs = "2..3", .attributes = "ignore_index:int reduction='mean'", .aliases = "nll_loss"},
    {.name = "SoftmaxCrossEntropyLoss", .category = Cat::kReduction, .inputs = "2..3", .outputs = "1..2", .attributes = "ignore_index:int reduction='mean'", .aliases = "cross_entropy_loss"},
};
// clang-format on

constexpr std::string_view kRandom = "its values are random, and Kiln has no random numbers";
constexpr std::string_view kDynamic = "its output's shape depends on the input's elements";
constexpr std::string_view kControl = "control flow is the engine's";
constexpr std::string_view kSequence = "sequences and optionals are no tensors";
constexpr std::string_view kText = "strings are no tensors of numbers";
constexpr std::string_view kRecurrent = "each step depends on the one before; unroll it";
constexpr std::string_view kSpectral = "there is no Fourier transform yet";
constexpr std::string_view kOrder = "sorting needs several passes";

constexpr OpRow No(std::string_view name, std::string_view why, std::string_view aliases = "") {
  OpRow row;
  row.name = name;
  row.category = Cat::kUnsupported;
  row.aliases = aliases;
  row.why_not = why;
  return row;
}

// clang-format off
constexpr OpRow kUnsupportedRows[] = {
    No("RandomNormal", kRandom, "random_normal"), No("RandomNormalLike", kRandom), No("RandomUniform", kRandom, "randomuniform"),
    No("RandomUniformLike", kRandom), No("Multinomial", kRandom), No("Bernoulli", kRandom, "random_bernoulli"),
    No("NonZero", kDynamic, "nonzero"), No("Unique", kDynamic, "unique"), No("Compress", kDynamic), No("NonMaxSuppression", kDynamic),
    No("If", kControl), No("Loop", kControl, "While"), No("Scan", kControl),
    No("SequenceAt", kSequence), No("SequenceConstruct", kSequence), No("SequenceEmpty", kSequence), No("SequenceErase", kSequence),
    No("SequenceInsert", kSequence), No("SequenceLength", kSequence), No("SequenceMap", kSequence), No("SplitToSequence", kSequence),
    No("ConcatFromSequence", kSequence), No("Optional", kSequence), No("OptionalGetElement", kSequence), No("OptionalHasElement", kSequence),
    No("StringConcat", kText), No("StringNormalizer", kText), No("StringSplit", kText), No("RegexFullMatch", kText), No("TfIdfVectorizer", kText),
    No("ImageDecoder", kText),
    No("LSTM", kRecurrent, "lstmLayer"), No("GRU", kRecurrent, "gruCell"), No("RNN", kRecurrent), No("LinearAttention", kRecurrent), No("FlexAttention", kControl),
    No("DFT", kSpectral, "fft"), No("STFT", kSpectral), No("MelWeightMatrix", kSpectral), No("BlackmanWindow", kSpectral), No("HammingWindow", kSpectral),
    No("HannWindow", kSpectral),
    No("TopK", kOrder, "top_k TopKV2"), No("Sort", kOrder, "sort"), No("ArgSort", kOrder, "argsort"),
    No("AffineGrid", "it is not written yet"), No("DeformConv", "it is not written yet"), No("MaxRoiPool", "it is not written yet"), No("RoiAlign", "it is not written yet"),
    No("Adam", "optimizers are the engine's"), No("Adagrad", "optimizers are the engine's"), No("Momentum", "optimizers are the engine's"), No("Gradient", "gradients are the engine's"),
};
// clang-format on

}  // namespace

std::span<const OpRow> StructuralRows() { return kStructuralRows; }
std::span<const OpRow> UnsupportedRows() { return kUnsupportedRows; }

}  // namespace kiln::graph
