# libanyflash: the engine as a shared and a static library, with what programs
# need to find it: header, pkg-config file, CMake package. libanyflash_python:
# the bindings for NumPy and torch, a second shared object beside the first. libanyflash_cuda:
# the bindings for flash-attn's Python package.

set(ANYFLASH_ENGINE_ROOMS engine/base engine/attn engine/cpu engine/call)
if(TARGET af_engine_gpu)
    list(APPEND ANYFLASH_ENGINE_ROOMS engine/gpu)
endif()
set(ANYFLASH_BINDING_ROOMS bindings/numpy bindings/torch)
set(ANYFLASH_SOVERSION 0)
if(WIN32)
    set(CMAKE_SHARED_LIBRARY_PREFIX "") # anyflash.dll, anyflash_python.dll
endif()
if(APPLE)
    set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,") # CMake asks Apple's tools for it
endif()
# What the library does not use of engine/base goes; what is not ANYFLASH_API is hidden.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(ANYFLASH_LIBRARY_OPTIONS -Wl,--gc-sections -Wl,--as-needed)
endif()

# The object files of `rooms`, in `out`.
function(anyflash_objects out rooms)
    set(objects "")
    foreach(room ${rooms})
        anyflash_room_target(${room} library)
        list(APPEND objects $<TARGET_OBJECTS:${library}>)
    endforeach()
    set(${out} ${objects} PARENT_SCOPE)
endfunction()

function(anyflash_engine_library target type)
    anyflash_objects(objects "${ANYFLASH_ENGINE_ROOMS}")
    add_library(${target} ${type} ${objects})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME anyflash LINKER_LANGUAGE C
                          INSTALL_NAME_DIR @rpath BUILD_WITH_INSTALL_NAME_DIR ON)
    target_link_libraries(${target} PUBLIC m Threads::Threads ${CMAKE_DL_LIBS})
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
    if(ANYFLASH_SANITIZE)
        target_link_options(${target} PRIVATE -fsanitize=${ANYFLASH_SANITIZE})
    endif()
endfunction()

# On Linux `target` exports the names of tools/`file` alone, and none of an archive of zstd.
function(anyflash_exports target file)
    if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
        return()
    endif()
    set(exports ${PROJECT_SOURCE_DIR}/tools/${file})
    set(map ${PROJECT_BINARY_DIR}/${target}.map)
    file(STRINGS ${exports} names)
    list(JOIN names "; " names)
    file(CONFIGURE OUTPUT ${map} CONTENT "{ global: ${names}; local: *; };\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${exports})
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
endfunction()

anyflash_engine_library(anyflash_shared SHARED)
anyflash_engine_library(anyflash_static STATIC)
anyflash_exports(anyflash_shared exports.txt)
target_link_options(anyflash_shared PRIVATE ${ANYFLASH_LIBRARY_OPTIONS})
# The static library has zstd inside if that was compiled here; else programs link it.
if(TARGET zstd_source)
    target_link_libraries(anyflash_shared PRIVATE zstd_source)
    target_sources(anyflash_static PRIVATE $<TARGET_OBJECTS:zstd_source>)
elseif(TARGET af_engine_gpu)
    set(ANYFLASH_PC_ZSTD -lzstd)
    target_link_libraries(anyflash_shared PRIVATE PkgConfig::zstd)
    target_link_libraries(anyflash_static PUBLIC $<BUILD_INTERFACE:PkgConfig::zstd>
                          $<INSTALL_INTERFACE:zstd>)
endif()
# A wheel cannot hold the links of a version.
if(NOT ANYFLASH_PYTHON AND NOT WIN32)
    set_target_properties(anyflash_shared PROPERTIES VERSION ${PROJECT_VERSION}
                          SOVERSION ${ANYFLASH_SOVERSION})
endif()

# It calls the engine by anyflash.h. Of engine/base it has copies of its own of a few
# functions without state (errors, checked sizes, allocation), which it does not export.
anyflash_objects(objects "${ANYFLASH_BINDING_ROOMS}")
add_library(anyflash_python SHARED ${objects}) # zig's linker makes no macOS bundle: no MODULE
set_target_properties(anyflash_python PROPERTIES LINKER_LANGUAGE C NO_SONAME ON
                      INSTALL_RPATH $<IF:$<BOOL:${APPLE}>,@loader_path,$ORIGIN>
                      BUILD_WITH_INSTALL_RPATH ON)
target_link_libraries(anyflash_python PRIVATE anyflash_shared
                      $<TARGET_FILE:af_engine_base> ${CMAKE_DL_LIBS})
add_dependencies(anyflash_python af_engine_base)
anyflash_exports(anyflash_python exports_python.txt)
target_link_options(anyflash_python PRIVATE ${ANYFLASH_LIBRARY_OPTIONS})
if(ANYFLASH_SANITIZE)
    target_link_options(anyflash_python PRIVATE -fsanitize=${ANYFLASH_SANITIZE})
endif()

# What a wheel of flash-attn has in the place of its extension: the engine's GPU side and the
# functions over it, in one file, so that no other libanyflash of the process can be taken for
# its own.
if(TARGET af_bindings_flash_attn)
    anyflash_objects(objects "bindings/flash_attn;engine/gpu")
    add_library(anyflash_cuda SHARED ${objects})
    set_target_properties(anyflash_cuda PROPERTIES LINKER_LANGUAGE C NO_SONAME ON)
    target_link_libraries(anyflash_cuda PRIVATE af_bindings_numpy PkgConfig::zstd
                          Threads::Threads ${CMAKE_DL_LIBS} m)
    anyflash_exports(anyflash_cuda exports_cuda.txt)
    target_link_options(anyflash_cuda PRIVATE ${ANYFLASH_LIBRARY_OPTIONS})
    if(ANYFLASH_SANITIZE)
        target_link_options(anyflash_cuda PRIVATE -fsanitize=${ANYFLASH_SANITIZE})
    endif()
endif()

include(CMakePackageConfigHelpers)
# From the folder of the .pc file to the prefix, so that the installed tree can lie anywhere.
string(REGEX REPLACE "[^/]+" ".." ANYFLASH_PC_PREFIX ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(packaging/anyflash.pc.in anyflash.pc @ONLY)
write_basic_package_version_file(anyflashConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS anyflash_shared anyflash_static EXPORT anyflash)
install(TARGETS anyflash_python DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/anyflash/anyflash.h include/anyflash/anyflash_cuda.h
              include/anyflash/anyflash_torch.h
              include/anyflash/anyflash_python.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/anyflash)
install(EXPORT anyflash NAMESPACE anyflash:: FILE anyflashTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anyflash)
install(FILES packaging/anyflashConfig.cmake ${PROJECT_BINARY_DIR}/anyflashConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anyflash)
install(FILES ${PROJECT_BINARY_DIR}/anyflash.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
