# The only compiler that weft needs is the pip-installable zig (package ziglang): clang, libc++ and the headers of an
# old glibc in one wheel, so that a build needs no system compiler and its result runs on distributions back to 2014.
if(NOT WEFT_ZIG)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).with_name('zig'))"
    OUTPUT_VARIABLE WEFT_ZIG OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEFT_ZIG)  # this file is read anew in each of CMake's trial builds

set(WEFT_TARGET "${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu.2.17")
# CMake wants one program a tool; zig has them as subcommands.
foreach(tool cc c++ ar ranlib)
  file(WRITE "${CMAKE_BINARY_DIR}/zig-${tool}" "#!/bin/sh\nexec '${WEFT_ZIG}' ${tool} \"$@\"\n")
  file(CHMOD "${CMAKE_BINARY_DIR}/zig-${tool}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()
set(CMAKE_C_COMPILER "${CMAKE_BINARY_DIR}/zig-cc")
set(CMAKE_CXX_COMPILER "${CMAKE_BINARY_DIR}/zig-c++")
set(CMAKE_AR "${CMAKE_BINARY_DIR}/zig-ar")
set(CMAKE_RANLIB "${CMAKE_BINARY_DIR}/zig-ranlib")
set(CMAKE_C_FLAGS_INIT "-target ${WEFT_TARGET}")
set(CMAKE_CXX_FLAGS_INIT "-target ${WEFT_TARGET}")
