# find_package(npusim) gives the target npusim::ascendcl: headers, library and run path.
get_filename_component(_npusim_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

if(NOT TARGET npusim::ascendcl)
  add_library(npusim::ascendcl SHARED IMPORTED)
  set_target_properties(npusim::ascendcl PROPERTIES
    IMPORTED_LOCATION "${_npusim_root}/lib/libascendcl.so"
    IMPORTED_SONAME "libascendcl.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_npusim_root}/include")
endif()

set(npusim_INCLUDE_DIRS "${_npusim_root}/include")
set(npusim_LIBRARIES npusim::ascendcl)
set(npusim_FOUND TRUE)
unset(_npusim_root)
