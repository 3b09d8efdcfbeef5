# Targets: anyflash::anyflash_shared, anyflash::anyflash_static.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/anyflashTargets.cmake)
