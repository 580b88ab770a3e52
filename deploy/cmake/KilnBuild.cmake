# How everything in this tree is compiled and linked, and the two functions that folders use to say what they hold.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# Where many files are compiled as one (CMAKE_UNITY_BUILD), names in anonymous namespaces have to differ within a library. Headers cost
# 4 to 7 s each time: presets that are built from scratch put 30 files together, "quick" 12, for edits.
# No precompiled headers: with ccache a changed header was not always noticed.
if(NOT CMAKE_UNITY_BUILD_BATCH_SIZE)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Line tables are what a stack trace needs; full debug information of gRPC and RocksDB headers
# triples object sizes and link times.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

# mold for gcc and clang alike; lld where it is missing.
find_program(MOLD mold)
find_program(LLD ld.lld)
if(MOLD)
  add_link_options(-fuse-ld=mold)
elseif(LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)  # checks the annotations of storage/base/mutex.h
endif()
if(KILN_WERROR)
  add_compile_options(-Werror)
endif()
if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KILN_SANITIZE})
else()
  add_compile_definitions($<$<CONFIG:RelWithDebInfo>:_FORTIFY_SOURCE=2>)
  add_compile_options($<$<CONFIG:RelWithDebInfo>:-fstack-protector-strong>)
endif()

# kiln_library(NAME [SOURCES…] [DEPENDS …]): one layer of the tree: the .cc files of the folder, or those
# named. Its headers are included by their path from the root (#include "storage/base/digest.h").
function(kiln_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
  if(KILN_FUZZ)  # tests compile a fifth faster without
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# kiln_test(NAME LABEL label [SOURCES…] [DEPENDS …]): one GoogleTest program of the .cc files of the
# folder, or of those named; each of its tests is a CTest test. Tests run in the build tree with TMPDIR as given by tests/run. Building "unit_tests"
# builds those with the label unit; where KILN_WHOLE_PROGRAMS is on, each of those is one CTest test,
# since starting a process takes longer than most of their tests.
add_custom_target(unit_tests)
function(kiln_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  if(ARG_LABEL STREQUAL "unit")
    add_dependencies(unit_tests ${name})
    if(KILN_WHOLE_PROGRAMS)
      add_test(NAME ${name} COMMAND ${name})
      set_tests_properties(${name} PROPERTIES LABELS unit COST 20 TIMEOUT 600  # COST: the longest first
                                               ENVIRONMENT GTEST_BRIEF=1)
      return()
    endif()
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()
