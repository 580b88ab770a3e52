"""What is known of NVIDIA's libdevice. tests/testing/bitcode_functions.py prints the table of another one."""


def _bits(table):
    return {f"__{name}": int(bit) for name, bit in (entry.split(":") for entry in table.split())}


# By the SHA-256 of a libdevice.10.bc: for each function with a body, the bit of the file that makes it a declaration. Without the first
# function: the reader takes the first body for that of the first function that has one.
DECLARATION_BITS = {
    # Triton 3.6 to 3.8
    "5c2fae37c86e68c3a38605a95f512d7d12d5f3db986310be47f57304aa72a5ee": _bits("""
nv_clzll:15258 nv_popc:15468 nv_popcll:15678 nv_byte_perm:15888 nv_min:16098 nv_umin:16308 nv_llmin:16518 nv_ullmin:16728 nv_max:16938
nv_umax:17148 nv_llmax:17358 nv_ullmax:17568 nv_mulhi:17778 nv_umulhi:17988 nv_mul64hi:18198 nv_umul64hi:18408 nv_mul24:18618
nv_umul24:18723 nv_brev:18828 nv_brevll:19038 nv_sad:19248 nv_usad:19458 nv_abs:19668 nv_llabs:19878 nv_floorf:20088 nv_floor:20520
nv_fabsf:20736 nv_fabs:21057 nv_rcp64h:21279 nv_fminf:21501 nv_fmaxf:21834 nv_rsqrtf:22161 nv_fmin:22482 nv_fmax:22704 nv_rsqrt:22926
nv_ceil:23148 nv_trunc:23370 nv_exp2f:23586 nv_truncf:23901 nv_ceilf:24111 nv_saturatef:24426 nv_fmaf_rn:24747 nv_fmaf_rz:25080
nv_fmaf_rd:25413 nv_fmaf_ru:25746 nv_fmaf_ieee_rn:26079 nv_fmaf_ieee_rz:26190 nv_fmaf_ieee_rd:26301 nv_fmaf_ieee_ru:26412 nv_fma_rn:26523
nv_fma_rz:26745 nv_fma_rd:26967 nv_fma_ru:27189 nv_fast_fdividef:27411 nv_fdiv_rn:27744 nv_fdiv_rz:28077 nv_fdiv_rd:28410 nv_fdiv_ru:28743
nv_frcp_rn:29070 nv_frcp_rz:29385 nv_frcp_rd:29700 nv_frcp_ru:30015 nv_fsqrt_rn:30330 nv_fsqrt_rz:30645 nv_fsqrt_rd:30960 nv_fsqrt_ru:31275
nv_ddiv_rn:31596 nv_ddiv_rz:31818 nv_ddiv_rd:32040 nv_ddiv_ru:32262 nv_drcp_rn:32484 nv_drcp_rz:32706 nv_drcp_rd:32928 nv_drcp_ru:33150
nv_dsqrt_rn:33372 nv_dsqrt_rz:33594 nv_dsqrt_rd:33816 nv_dsqrt_ru:34038 nv_sqrtf:34254 nv_sqrt:34575 nv_dadd_rn:34686 nv_dadd_rz:34908
nv_dadd_rd:35130 nv_dadd_ru:35352 nv_dmul_rn:35574 nv_dmul_rz:35796 nv_dmul_rd:36018 nv_dmul_ru:36240 nv_fadd_rd:36462 nv_fadd_ru:36795
nv_fmul_rd:37128 nv_fmul_ru:37461 nv_fadd_rn:37794 nv_fadd_rz:38127 nv_fmul_rn:38460 nv_fmul_rz:38793 nv_double2float_rn:39126
nv_double2float_rz:39459 nv_double2float_rd:39792 nv_double2float_ru:40125 nv_double2int_rn:40458 nv_double2int_rz:40680
nv_double2int_rd:40902 nv_double2int_ru:41124 nv_double2uint_rn:41346 nv_double2uint_rz:41568 nv_double2uint_rd:41790
nv_double2uint_ru:42012 nv_int2double_rn:42234 nv_uint2double_rn:42456 nv_float2int_rn:42678 nv_float2int_rz:43011 nv_float2int_rd:43344
nv_float2int_ru:43677 nv_float2uint_rn:44010 nv_float2uint_rz:44343 nv_float2uint_rd:44676 nv_float2uint_ru:45009 nv_int2float_rn:45342
nv_int2float_rz:45564 nv_int2float_rd:45786 nv_int2float_ru:46008 nv_uint2float_rn:46230 nv_uint2float_rz:46452 nv_uint2float_rd:46674
nv_uint2float_ru:46896 nv_hiloint2double:47118 nv_double2loint:47340 nv_double2hiint:47562 nv_float2ll_rn:47784 nv_float2ll_rz:48117
nv_float2ll_rd:48450 nv_float2ll_ru:48783 nv_float2ull_rn:49116 nv_float2ull_rz:49449 nv_float2ull_rd:49782 nv_float2ull_ru:50115
nv_double2ll_rn:50448 nv_double2ll_rz:50670 nv_double2ll_rd:50892 nv_double2ll_ru:51114 nv_double2ull_rn:51336 nv_double2ull_rz:51558
nv_double2ull_rd:51780 nv_double2ull_ru:52002 nv_ll2float_rn:52224 nv_ll2float_rz:52446 nv_ll2float_rd:52668 nv_ll2float_ru:52890
nv_ull2float_rn:53112 nv_ull2float_rz:53334 nv_ull2float_rd:53556 nv_ull2float_ru:53778 nv_ll2double_rn:54000 nv_ll2double_rz:54222
nv_ll2double_rd:54444 nv_ll2double_ru:54666 nv_ull2double_rn:54888 nv_ull2double_rz:55110 nv_ull2double_rd:55332 nv_ull2double_ru:55554
nv_float2half_rn:55776 nv_half2float:56109 nv_int_as_float:56331 nv_float_as_int:56442 nv_uint_as_float:56553 nv_float_as_uint:56664
nv_longlong_as_double:56775 nv_double_as_longlong:56886 nv_fast_sinf:56991 nv_fast_cosf:57306 nv_fast_log2f:57621 nv_fast_logf:57936
nv_fast_expf:58041 nv_fast_tanf:58146 nv_fast_sincosf:58257 nv_fast_exp10f:58362 nv_fast_log10f:58467 nv_fast_powf:58578 nv_hadd:58683
nv_rhadd:58788 nv_uhadd:58893 nv_urhadd:58998 nv_fsub_rn:59109 nv_fsub_rz:59220 nv_fsub_rd:59331 nv_fsub_ru:59442 nv_frsqrt_rn:59547
nv_ffs:59652 nv_ffsll:59757 nv_rintf:59862 nv_llrintf:60078 nv_nearbyintf:60183 nv_isnanf:60294 nv_signbitf:60405 nv_copysignf:60516
nv_finitef:60627 nv_isinff:60738 nv_nextafterf:60849 nv_nanf:60960 nv_sinf:61176 nv_cosf:61281 nv_sincosf:61392 nv_sinpif:61497
nv_cospif:61602 nv_sincospif:61713 nv_tanf:61818 nv_log2f:61923 nv_expf:62028 nv_exp10f:62133 nv_coshf:62238 nv_sinhf:62343 nv_tanhf:62448
nv_atan2f:62559 nv_atanf:62664 nv_asinf:62769 nv_acosf:62874 nv_logf:62979 nv_log10f:63084 nv_log1pf:63189 nv_acoshf:63294 nv_asinhf:63399
nv_atanhf:63504 nv_expm1f:63609 nv_hypotf:63720 nv_rhypotf:63831 nv_norm3df:63942 nv_rnorm3df:64053 nv_norm4df:64164 nv_rnorm4df:64275
nv_normf:64386 nv_rnormf:64497 nv_cbrtf:64602 nv_rcbrtf:64707 nv_j0f:64812 nv_j1f:64917 nv_y0f:65022 nv_y1f:65127 nv_ynf:65238 nv_jnf:65349
nv_cyl_bessel_i0f:65454 nv_cyl_bessel_i1f:65559 nv_erff:65664 nv_erfinvf:65769 nv_erfcf:65874 nv_erfcxf:65979 nv_erfcinvf:66084
nv_normcdfinvf:66189 nv_normcdff:66294 nv_lgammaf:66399 nv_ldexpf:66510 nv_scalbnf:66621 nv_frexpf:66732 nv_modff:66843 nv_fmodf:66954
nv_remainderf:67065 nv_remquof:67176 nv_fmaf:67287 nv_powif:67398 nv_powi:67509 nv_powf:67620 nv_tgammaf:67725 nv_roundf:67830
nv_llroundf:67941 nv_fdimf:68052 nv_ilogbf:68163 nv_logbf:68268 nv_rint:68379 nv_llrint:68601 nv_nearbyint:68712 nv_signbitd:68823
nv_isfinited:68934 nv_isinfd:69045 nv_isnand:69156 nv_copysign:69267 nv_sincos:69378 internal_trig_reduction_slowpathd:69489
nv_sincospi:69600 nv_sin:69711 nv_cos:69822 nv_sinpi:69933 nv_cospi:70044 nv_tan:70155 nv_log:70266 nv_log2:70377 nv_log10:70488
nv_log1p:70599 nv_exp:70710 nv_exp2:70821 nv_exp10:70932 nv_expm1:71043 nv_cosh:71154 nv_sinh:71265 nv_tanh:71376 nv_atan2:71487
nv_atan:71598 nv_asin:71709 nv_acos:71820 nv_acosh:71931 nv_asinh:72042 nv_atanh:72153 nv_hypot:72264 nv_rhypot:72375 nv_norm3d:72486
nv_rnorm3d:72597 nv_norm4d:72708 nv_rnorm4d:72819 nv_norm:72930 nv_rnorm:73041 nv_cbrt:73152 nv_rcbrt:73263 nv_pow:73374
internal_accurate_pow:73485 nv_j0:73596 nv_j1:73707 nv_y0:73818 nv_y1:73929 nv_yn:74040 nv_jn:74151 nv_cyl_bessel_i0:74262
nv_cyl_bessel_i1:74373 nv_erf:74484 nv_erfinv:74595 nv_erfcinv:74706 nv_normcdfinv:74817 nv_erfc:74928 nv_erfcx:75039 nv_normcdf:75150
nv_tgamma:75261 nv_lgamma:75372 internal_lgamma_pos:75483 nv_ldexp:75594 nv_scalbn:75705 nv_frexp:75816 nv_modf:75927 nv_fmod:76038
nv_remainder:76149 nv_remquo:76260 nv_nextafter:76371 nv_nan:76482 nv_round:76593 nv_llround:76704 nv_fdim:76815 nv_ilogb:76926
nv_logb:77037 nv_fma:77148 nv_dsub_rn:77259 nv_dsub_rz:77370 nv_dsub_ru:77481 nv_dsub_rd:77592
"""),
    # Triton 3.9
    "9e84b504f25d26ec775ef91f7122e68dac77fa1f776f1044128f5028356265d8": _bits("""
nv_clzll:15482 nv_popc:15692 nv_popcll:15902 nv_byte_perm:16112 nv_min:16322 nv_umin:16532 nv_llmin:16742 nv_ullmin:16952 nv_max:17162
nv_umax:17372 nv_llmax:17582 nv_ullmax:17792 nv_mulhi:18002 nv_umulhi:18212 nv_mul64hi:18422 nv_umul64hi:18632 nv_mul24:18842
nv_umul24:18947 nv_brev:19052 nv_brevll:19262 nv_sad:19472 nv_usad:19682 nv_abs:19892 nv_llabs:20102 nv_floorf:20312 nv_floor:20744
nv_fabsf:20960 nv_fabs:21281 nv_rcp64h:21503 nv_fminf:21725 nv_fmaxf:22058 nv_rsqrtf:22385 nv_fmin:22706 nv_fmax:22928 nv_rsqrt:23150
nv_ceil:23372 nv_trunc:23594 nv_exp2f:23810 nv_truncf:24125 nv_ceilf:24335 nv_saturatef:24650 nv_fmaf_rn:24971 nv_fmaf_rz:25304
nv_fmaf_rd:25637 nv_fmaf_ru:25970 nv_fmaf_ieee_rn:26303 nv_fmaf_ieee_rz:26414 nv_fmaf_ieee_rd:26525 nv_fmaf_ieee_ru:26636 nv_fma_rn:26747
nv_fma_rz:26969 nv_fma_rd:27191 nv_fma_ru:27413 nv_fast_fdividef:27635 nv_fdiv_rn:27968 nv_fdiv_rz:28301 nv_fdiv_rd:28634 nv_fdiv_ru:28967
nv_frcp_rn:29294 nv_frcp_rz:29609 nv_frcp_rd:29924 nv_frcp_ru:30239 nv_fsqrt_rn:30554 nv_fsqrt_rz:30869 nv_fsqrt_rd:31184 nv_fsqrt_ru:31499
nv_ddiv_rn:31820 nv_ddiv_rz:32042 nv_ddiv_rd:32264 nv_ddiv_ru:32486 nv_drcp_rn:32708 nv_drcp_rz:32930 nv_drcp_rd:33152 nv_drcp_ru:33374
nv_dsqrt_rn:33596 nv_dsqrt_rz:33818 nv_dsqrt_rd:34040 nv_dsqrt_ru:34262 nv_sqrtf:34478 nv_sqrt:34799 nv_dadd_rn:34910 nv_dadd_rz:35132
nv_dadd_rd:35354 nv_dadd_ru:35576 nv_dmul_rn:35798 nv_dmul_rz:36020 nv_dmul_rd:36242 nv_dmul_ru:36464 nv_fadd_rd:36686 nv_fadd_ru:37019
nv_fmul_rd:37352 nv_fmul_ru:37685 nv_fadd_rn:38018 nv_fadd_rz:38351 nv_fmul_rn:38684 nv_fmul_rz:39017 nv_double2float_rn:39350
nv_double2float_rz:39683 nv_double2float_rd:40016 nv_double2float_ru:40349 nv_double2int_rn:40682 nv_double2int_rz:40904
nv_double2int_rd:41126 nv_double2int_ru:41348 nv_double2uint_rn:41570 nv_double2uint_rz:41792 nv_double2uint_rd:42014
nv_double2uint_ru:42236 nv_int2double_rn:42458 nv_uint2double_rn:42680 nv_float2int_rn:42902 nv_float2int_rz:43235 nv_float2int_rd:43568
nv_float2int_ru:43901 nv_float2uint_rn:44234 nv_float2uint_rz:44567 nv_float2uint_rd:44900 nv_float2uint_ru:45233 nv_int2float_rn:45566
nv_int2float_rz:45788 nv_int2float_rd:46010 nv_int2float_ru:46232 nv_uint2float_rn:46454 nv_uint2float_rz:46676 nv_uint2float_rd:46898
nv_uint2float_ru:47120 nv_hiloint2double:47342 nv_double2loint:47564 nv_double2hiint:47786 nv_float2ll_rn:48008 nv_float2ll_rz:48341
nv_float2ll_rd:48674 nv_float2ll_ru:49007 nv_float2ull_rn:49340 nv_float2ull_rz:49673 nv_float2ull_rd:50006 nv_float2ull_ru:50339
nv_double2ll_rn:50672 nv_double2ll_rz:50894 nv_double2ll_rd:51116 nv_double2ll_ru:51338 nv_double2ull_rn:51560 nv_double2ull_rz:51782
nv_double2ull_rd:52004 nv_double2ull_ru:52226 nv_ll2float_rn:52448 nv_ll2float_rz:52670 nv_ll2float_rd:52892 nv_ll2float_ru:53114
nv_ull2float_rn:53336 nv_ull2float_rz:53558 nv_ull2float_rd:53780 nv_ull2float_ru:54002 nv_ll2double_rn:54224 nv_ll2double_rz:54446
nv_ll2double_rd:54668 nv_ll2double_ru:54890 nv_ull2double_rn:55112 nv_ull2double_rz:55334 nv_ull2double_rd:55556 nv_ull2double_ru:55778
nv_float2half_rn:56000 nv_half2float:56333 nv_int_as_float:56555 nv_float_as_int:56666 nv_uint_as_float:56777 nv_float_as_uint:56888
nv_longlong_as_double:56999 nv_double_as_longlong:57110 nv_fast_sinf:57215 nv_fast_cosf:57530 nv_fast_log2f:57845 nv_fast_logf:58160
nv_fast_expf:58265 nv_fast_tanhf:58475 nv_tanhf:58580 nv_fast_tanf:58685 nv_fast_sincosf:58796 nv_fast_exp10f:58901 nv_fast_log10f:59006
nv_fast_powf:59117 nv_hadd:59222 nv_rhadd:59327 nv_uhadd:59432 nv_urhadd:59537 nv_fsub_rn:59648 nv_fsub_rz:59759 nv_fsub_rd:59870
nv_fsub_ru:59981 nv_frsqrt_rn:60086 nv_ffs:60191 nv_ffsll:60296 nv_rintf:60401 nv_llrintf:60617 nv_nearbyintf:60722 nv_isnanf:60833
nv_signbitf:60944 nv_copysignf:61055 nv_finitef:61277 nv_isinff:61388 nv_nextafterf:61499 nv_nanf:61610 nv_sinf:61826 nv_cosf:61931
nv_sincosf:62042 nv_sinpif:62147 nv_cospif:62252 nv_sincospif:62363 nv_tanf:62468 nv_log2f:62573 nv_expf:62678 nv_exp10f:62783
nv_coshf:62888 nv_sinhf:62993 nv_atan2f:63104 nv_atanf:63209 nv_asinf:63314 nv_acosf:63419 nv_logf:63524 nv_log10f:63629 nv_log1pf:63734
nv_acoshf:63839 nv_asinhf:63944 nv_atanhf:64049 nv_expm1f:64154 nv_hypotf:64265 nv_rhypotf:64376 nv_norm3df:64487 nv_rnorm3df:64598
nv_norm4df:64709 nv_rnorm4df:64820 nv_normf:64931 nv_rnormf:65042 nv_cbrtf:65147 nv_rcbrtf:65252 nv_j0f:65357 nv_j1f:65462 nv_y0f:65567
nv_y1f:65672 nv_ynf:65783 nv_jnf:65894 nv_cyl_bessel_i0f:65999 nv_cyl_bessel_i1f:66104 nv_erff:66209 nv_erfinvf:66314 nv_erfcf:66419
nv_erfcxf:66524 nv_erfcinvf:66629 nv_normcdfinvf:66734 nv_normcdff:66839 nv_lgammaf:66944 nv_ldexpf:67055 nv_scalbnf:67166 nv_frexpf:67277
nv_modff:67388 nv_fmodf:67499 nv_remainderf:67610 nv_remquof:67721 nv_fmaf:67832 nv_powif:67943 nv_powi:68054 nv_powf:68165
nv_tgammaf:68270 nv_roundf:68375 nv_llroundf:68486 nv_fdimf:68597 nv_ilogbf:68708 nv_logbf:68813 nv_rint:68924 nv_llrint:69146
nv_nearbyint:69257 nv_signbitd:69368 nv_isfinited:69479 nv_isinfd:69590 nv_isnand:69701 nv_copysign:69812 nv_sincos:70034
internal_trig_reduction_slowpathd:70145 nv_sincospi:70256 nv_sin:70367 nv_cos:70478 nv_sinpi:70589 nv_cospi:70700 nv_tan:70811 nv_log:70922
nv_log2:71033 nv_log10:71144 nv_log1p:71255 nv_exp:71366 nv_exp2:71477 nv_exp10:71588 nv_expm1:71699 nv_cosh:71810 nv_sinh:71921
nv_tanh:72032 nv_atan2:72143 nv_atan:72254 nv_asin:72365 nv_acos:72476 nv_acosh:72587 nv_asinh:72698 nv_atanh:72809 nv_hypot:72920
nv_rhypot:73031 nv_norm3d:73142 nv_rnorm3d:73253 nv_norm4d:73364 nv_rnorm4d:73475 nv_norm:73586 nv_rnorm:73697 nv_cbrt:73808 nv_rcbrt:73919
nv_pow:74030 internal_accurate_pow:74141 nv_j0:74252 nv_j1:74363 nv_y0:74474 nv_y1:74585 nv_yn:74696 nv_jn:74807 nv_cyl_bessel_i0:74918
nv_cyl_bessel_i1:75029 nv_erf:75140 nv_erfinv:75251 nv_erfcinv:75362 nv_normcdfinv:75473 nv_erfc:75584 nv_erfcx:75695 nv_normcdf:75806
nv_tgamma:75917 nv_lgamma:76028 internal_lgamma_pos:76139 nv_ldexp:76250 nv_scalbn:76361 nv_frexp:76472 nv_modf:76583 nv_fmod:76694
nv_remainder:76805 nv_remquo:76916 nv_nextafter:77027 nv_nan:77138 nv_round:77249 nv_llround:77360 nv_ilogb:77471 nv_logb:77582
nv_fma:77693 nv_dsub_rn:77804 nv_dsub_rz:77915 nv_dsub_ru:78026 nv_dsub_rd:78137 nv_fdim:78248
"""),
}

# By function, the other one that it calls; in all of these files.
CALLED = {
    **{f"__nv_{name}": "__internal_trig_reduction_slowpathd" for name in "sincos sin cos tan j0 j1 jn y0 y1 yn".split()},
    "__nv_pow": "__internal_accurate_pow",
    "__nv_tgamma": "__internal_accurate_pow",
    "__nv_lgamma": "__internal_lgamma_pos",
}
