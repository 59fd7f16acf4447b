# find_package(npusim) gives the target npusim::ascendcl (headers, library, run path), and the language
# ASC: sources named *.asc with kernels, launched by <<<blocks, l2ctrl, stream>>>.
set(npusim_INCLUDE_DIRS "${CMAKE_CURRENT_LIST_DIR}/../include")
set(npusim_LIBRARY_DIRS "${CMAKE_CURRENT_LIST_DIR}/../lib")
get_filename_component(npusim_INCLUDE_DIRS "${npusim_INCLUDE_DIRS}" ABSOLUTE)
get_filename_component(npusim_LIBRARY_DIRS "${npusim_LIBRARY_DIRS}" ABSOLUTE)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")

if(PROJECT_NAME AND NOT TARGET npusim::ascendcl)
  add_library(npusim::ascendcl SHARED IMPORTED)
  set_target_properties(npusim::ascendcl PROPERTIES
    IMPORTED_LOCATION "${npusim_LIBRARY_DIRS}/libascendcl.so"
    IMPORTED_SONAME "libascendcl.so"
    INTERFACE_INCLUDE_DIRECTORIES "${npusim_INCLUDE_DIRS}")
  enable_language(ASC)
endif()

set(npusim_LIBRARIES npusim::ascendcl)
set(npusim_FOUND TRUE)
