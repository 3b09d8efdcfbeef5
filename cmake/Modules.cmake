# anyflash_module(NAME MODULES ... LIBRARIES ...): static library af_NAME from
# src/NAME/*.c. anyflash_compile_options(TARGET): warnings and sanitizers.

function(anyflash_compile_options target)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src
                               ${PROJECT_SOURCE_DIR}/include)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
        -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla
        -fno-common -ffunction-sections -fdata-sections)
    # Functions that write without a bound, hide errors or start a shell do not compile.
    target_compile_options(${target} PRIVATE
        -include ${PROJECT_SOURCE_DIR}/src/base/forbidden.h)
    if(ANYFLASH_SANITIZE)
        target_compile_options(${target} PRIVATE -fsanitize=${ANYFLASH_SANITIZE}
                               -fno-sanitize-recover=all -fno-omit-frame-pointer)
        target_link_options(${target} PRIVATE -fsanitize=${ANYFLASH_SANITIZE})
    endif()
    if(ANYFLASH_FUZZ)
        target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
endfunction()

function(anyflash_module name)
    cmake_parse_arguments(arg "" "" "MODULES;LIBRARIES" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
    if(NOT sources)
        add_library(af_${name} INTERFACE)
        set(scope INTERFACE)
    else()
        add_library(af_${name} STATIC ${sources})
        anyflash_compile_options(af_${name})
        set(scope PUBLIC)
    endif()
    foreach(module ${arg_MODULES})
        target_link_libraries(af_${name} ${scope} af_${module})
    endforeach()
    target_link_libraries(af_${name} ${scope} ${arg_LIBRARIES})
endfunction()
