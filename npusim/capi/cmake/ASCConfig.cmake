# find_package(ASC) before project(... LANGUAGES ASC CXX), as programs for a card are built.
include("${CMAKE_CURRENT_LIST_DIR}/npusim-config.cmake")
set(ASC_FOUND TRUE)
