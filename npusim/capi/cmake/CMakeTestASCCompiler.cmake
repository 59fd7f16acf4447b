set(CMAKE_ASC_COMPILER_WORKS 1 CACHE INTERNAL "") # `npusim cc` has compiled its own library
