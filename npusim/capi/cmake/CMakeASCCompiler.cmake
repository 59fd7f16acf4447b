set(CMAKE_ASC_COMPILER "@npusim_PYTHON@")
set(CMAKE_ASC_COMPILER_LOADED 1)
set(CMAKE_ASC_SOURCE_FILE_EXTENSIONS asc)
set(CMAKE_ASC_OUTPUT_EXTENSION .o)
set(CMAKE_ASC_LINKER_PREFERENCE 50) # above C++: what has kernels is linked with their library
