# How everything in this tree is compiled and linked, and the two functions that folders use to say what they hold.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)

# Where many files are compiled as one (CMAKE_UNITY_BUILD, kiln_unite), names in anonymous namespaces have to differ within a library.
# Headers cost 4 to 7 s each time: presets that are built from scratch put 30 files together, "quick" 12, for edits.
# No precompiled headers: with ccache a changed header was not always noticed.
if(NOT CMAKE_UNITY_BUILD_BATCH_SIZE)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Line tables are what a stack trace needs; full debug information of gRPC and RocksDB headers
# triples object sizes and link times.
if(KILN_LINE_TABLES)
  add_compile_options(-g1)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0")
# RelWithDebInfo with assertions; tests/CMakeLists.txt leaves the tests themselves unoptimised.
set(CMAKE_CXX_FLAGS_CHECK "-O2")
set(CMAKE_C_FLAGS_CHECK "-O2")

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
# gcc 12 reports these falsely where it has optimised the C++ library.
add_compile_options("$<$<AND:$<CONFIG:RelWithDebInfo,Check>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized;-Wno-restrict>")
if(KILN_WERROR)
  add_compile_options(-Werror)
endif()
if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KILN_SANITIZE})
else()
  add_compile_definitions($<$<CONFIG:RelWithDebInfo,Check>:_FORTIFY_SOURCE=2>)
  add_compile_options($<$<CONFIG:RelWithDebInfo,Check>:-fstack-protector-strong>)
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

# kiln_unite(DIRECTORY): what CMAKE_UNITY_BUILD does, for the targets there and below. CMake's own units name their sources by absolute
# paths. These name them from the root, so ccache finds the objects of another clone without preprocessing: 1 s for each unit.
function(kiln_unite directory)
  if(directory STREQUAL "${PROJECT_SOURCE_DIR}/protos")  # generated, and CMake's own
    return()
  endif()
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(united ${target} UNITY_BUILD)
    get_target_property(sources ${target} SOURCES)
    if(NOT united OR NOT sources)
      continue()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    set(files ${sources})
    list(FILTER files INCLUDE REGEX "^[^$]*\\.cc$")
    list(LENGTH files count)
    if(count LESS 2)
      continue()
    endif()
    list(REMOVE_ITEM sources ${files})
    get_target_property(folder ${target} SOURCE_DIR)
    get_target_property(units ${target} BINARY_DIR)
    math(EXPR last "${count} - 1")
    foreach(first RANGE 0 ${last} ${CMAKE_UNITY_BUILD_BATCH_SIZE})
      list(SUBLIST files ${first} ${CMAKE_UNITY_BUILD_BATCH_SIZE} batch)
      set(text)
      foreach(file IN LISTS batch)
        cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${folder} NORMALIZE)
        cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
        string(APPEND text "#include \"${file}\"\n")
      endforeach()
      set(unit ${units}/${target}.units/${first}.cc)
      file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
      list(APPEND sources ${unit})
    endforeach()
    set_target_properties(${target} PROPERTIES SOURCES "${sources}")
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  endforeach()
  get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    kiln_unite(${folder})
  endforeach()
endfunction()
