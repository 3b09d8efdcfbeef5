# One static library for each room of ARCHITECTURE.md, linked with the rooms
# that its row names: the table is read here and by tools/check_deps.py.
#
#   anyflash_room(ROOM LIBRARIES ...)   af_ROOM with '_' for '/', from ROOM/*.c
#   anyflash_compile_options(TARGET)    warnings and sanitizers

set(architecture ${PROJECT_SOURCE_DIR}/ARCHITECTURE.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${architecture})
# A row: | `room` | kind | `used room`, ... | job |
file(STRINGS ${architecture} anyflash_rows REGEX "^\\| `[a-z_/]+` \\| [a-z]+ \\|")
foreach(row ${anyflash_rows})
    string(REPLACE "|" ";" row "${row}")
    list(REMOVE_AT row 0)
    list(GET row 0 room)
    list(GET row 1 kind)
    list(GET row 2 uses)
    string(REGEX REPLACE "[` ]" "" room "${room}")
    string(STRIP "${kind}" kind)
    string(REGEX MATCHALL "[a-z_/]+" uses "${uses}")
    list(APPEND anyflash_rooms ${room})
    set(anyflash_kind_of_${room} ${kind})
    set(anyflash_uses_of_${room} ${uses})
endforeach()

function(anyflash_compile_options target)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}
                               ${PROJECT_SOURCE_DIR}/include)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
        -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla
        -Werror=implicit-function-declaration
        -fno-common -ffunction-sections -fdata-sections)
    # Functions that write without a bound, hide errors or start a shell do not compile.
    target_compile_options(${target} PRIVATE
        -include ${PROJECT_SOURCE_DIR}/engine/base/forbidden.h)
    if(ANYFLASH_SANITIZE)
        target_compile_options(${target} PRIVATE -fsanitize=${ANYFLASH_SANITIZE}
                               -fno-sanitize-recover=all -fno-omit-frame-pointer)
        target_link_options(${target} PRIVATE -fsanitize=${ANYFLASH_SANITIZE})
    endif()
    if(ANYFLASH_FUZZ)
        target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
endfunction()

# "af_kit_base" for "kit/base", in `out`.
function(anyflash_room_target room out)
    string(REPLACE "/" "_" name ${room})
    set(${out} af_${name} PARENT_SCOPE)
endfunction()

function(anyflash_room room)
    cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
    if(NOT DEFINED anyflash_kind_of_${room})
        message(FATAL_ERROR "ARCHITECTURE.md has no row for the room ${room}")
    endif()
    anyflash_room_target(${room} target)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.c)
    list(FILTER sources EXCLUDE REGEX "main\\.c$")
    add_library(${target} STATIC ${sources})
    # For unwinding the wheel's program, which is stripped: 3 % of the wheel. Debug information
    # on variables is a fifth of the time to compile; the preset `debug` has it.
    if(room MATCHES "^kit/")
        target_compile_options(${target} PRIVATE
            $<$<CONFIG:Release>:-fno-asynchronous-unwind-tables>
            $<$<CONFIG:RelWithDebInfo>:-g1>)
    endif()
    anyflash_compile_options(${target})
    foreach(used ${anyflash_uses_of_${room}})
        anyflash_room_target(${used} library)
        target_link_libraries(${target} PUBLIC ${library})
    endforeach()
    target_link_libraries(${target} PUBLIC ${arg_LIBRARIES})
endfunction()
