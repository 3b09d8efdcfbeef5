# libanyflash: the engine as a shared and a static library, with what programs
# need to find it: header, pkg-config file, CMake package.

set(ANYFLASH_ENGINE_ROOMS engine/base engine/attn engine/cpu bindings/numpy bindings/torch)
set(ANYFLASH_SOVERSION 0)

function(anyflash_engine_library target type)
    set(objects)
    foreach(room ${ANYFLASH_ENGINE_ROOMS})
        anyflash_room_target(${room} library)
        list(APPEND objects $<TARGET_OBJECTS:${library}>)
    endforeach()
    add_library(${target} ${type} ${objects})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME anyflash LINKER_LANGUAGE C)
    target_link_libraries(${target} PUBLIC m Threads::Threads ${CMAKE_DL_LIBS})
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
    if(ANYFLASH_SANITIZE)
        target_link_options(${target} PRIVATE -fsanitize=${ANYFLASH_SANITIZE})
    endif()
endfunction()

anyflash_engine_library(anyflash_shared SHARED)
anyflash_engine_library(anyflash_static STATIC)
# What the engine does not use of base goes; what is not declared ANYFLASH_API is hidden.
target_link_options(anyflash_shared PRIVATE -Wl,--gc-sections -Wl,--as-needed)
set_target_properties(anyflash_shared PROPERTIES VERSION ${PROJECT_VERSION}
                      SOVERSION ${ANYFLASH_SOVERSION})

include(CMakePackageConfigHelpers)
configure_file(cmake/anyflash.pc.in anyflash.pc @ONLY)
write_basic_package_version_file(anyflashConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS anyflash_shared anyflash_static EXPORT anyflash)
install(FILES include/anyflash/anyflash.h include/anyflash/anyflash_torch.h
              include/anyflash/anyflash_python.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/anyflash)
install(EXPORT anyflash NAMESPACE anyflash:: FILE anyflashTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anyflash)
install(FILES cmake/anyflashConfig.cmake ${PROJECT_BINARY_DIR}/anyflashConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/anyflash)
install(FILES ${PROJECT_BINARY_DIR}/anyflash.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
