# The kit's libraries, compiled from the sources that packaging/libraries.sh leaves in
# build/libraries, under the names that pkg_check_modules() gives to installed ones.
set(sources ${PROJECT_SOURCE_DIR}/build/libraries)
set(generated ${PROJECT_BINARY_DIR}/libraries)

# anyflash_library(NAME HEADERS SOURCE_PATTERN ...): PkgConfig::NAME from its folder.
function(anyflash_library name headers)
    file(GLOB files ${ARGN})
    if(NOT files)
        message(FATAL_ERROR "no sources of ${name}: packaging/libraries.sh fetches them")
    endif()
    add_library(${name}_source STATIC ${files})
    target_include_directories(${name}_source SYSTEM PUBLIC ${headers})
    target_compile_definitions(${name}_source PRIVATE _GNU_SOURCE)
    target_compile_options(${name}_source PRIVATE -w -ffunction-sections -fdata-sections
                           -fno-asynchronous-unwind-tables)
    add_library(PkgConfig::${name} ALIAS ${name}_source)
endfunction()

file(CONFIGURE OUTPUT ${generated}/jansson_config.h CONTENT
"#define JSON_INLINE inline
#define JSON_INTEGER_IS_LONG_LONG 1
#define JSON_HAVE_LOCALECONV 1
#define JSON_HAVE_ATOMIC_BUILTINS 1
#define JSON_HAVE_SYNC_BUILTINS 1
#define JSON_PARSER_MAX_DEPTH 2048
")
file(TOUCH ${generated}/jansson_private_config.h) # its definitions are given below
anyflash_library(jansson ${sources}/jansson/src ${sources}/jansson/src/*.c)
target_include_directories(jansson_source SYSTEM PUBLIC ${generated})
target_compile_definitions(jansson_source PRIVATE HAVE_STDINT_H HAVE_LOCALE_H HAVE_SETLOCALE
    HAVE_UNISTD_H HAVE_FCNTL_H HAVE_SYS_STAT_H HAVE_SYS_TIME_H HAVE_SYS_TYPES_H HAVE_OPEN
    HAVE_CLOSE HAVE_READ HAVE_GETPID HAVE_GETTIMEOFDAY
    HAVE_ATOMIC_BUILTINS HAVE_SYNC_BUILTINS USE_URANDOM=1 INITIAL_HASHTABLE_ORDER=3)

set(zstd ${sources}/libzstd/lib)
anyflash_library(zstd ${zstd} ${zstd}/common/*.c ${zstd}/compress/*.c ${zstd}/decompress/*.c)
target_compile_definitions(zstd_source PRIVATE ZSTD_DISABLE_ASM XXH_NAMESPACE=ZSTD_)

set(lz4 ${sources}/lz4/lib)
anyflash_library(lz4 ${lz4} ${lz4}/*.c)
target_compile_definitions(lz4_source PRIVATE XXH_NAMESPACE=LZ4_)

anyflash_library(zlib ${sources}/zlib ${sources}/zlib/*.c)
target_compile_definitions(zlib_source PRIVATE HAVE_UNISTD_H HAVE_HIDDEN)

anyflash_library(sqlite3 ${sources}/sqlite3 ${sources}/sqlite3/sqlite3.c)
target_compile_definitions(sqlite3_source PRIVATE SQLITE_THREADSAFE=1 SQLITE_OMIT_LOAD_EXTENSION
    SQLITE_DQS=0 HAVE_USLEEP=1 HAVE_FDATASYNC=1 HAVE_STRERROR_R=1 HAVE_LOCALTIME_R=1)
target_link_libraries(sqlite3_source PUBLIC Threads::Threads m)
