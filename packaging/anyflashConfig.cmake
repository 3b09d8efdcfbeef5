# Targets: anyflash::anyflash_shared, anyflash::anyflash_static, and anyflash::anyflash for the
# shared one.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/anyflashTargets.cmake)
if(NOT TARGET anyflash::anyflash)
    add_library(anyflash::anyflash INTERFACE IMPORTED)
    set_target_properties(anyflash::anyflash PROPERTIES
                          INTERFACE_LINK_LIBRARIES anyflash::anyflash_shared)
endif()
