/* Starts the interpreter of the Python environment that built this library, before the program's
   first call: left to itself, it would take whatever Python it finds first. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Before Python 3.12 cffi takes this number of Python's for a lock when it starts, and ends the
   process if it isn't nought: so it is once anybody has looked for an attribute of a capsule. */
static void npusim_free_lock(void)
{
#if PY_VERSION_HEX < 0x030C0000
    PyGILState_STATE held = PyGILState_Ensure();
    PyType_Modified(&PyCapsule_Type);
    PyGILState_Release(held);
#endif
}

__attribute__((constructor)) static void npusim_start_python(void)
{
    Dl_info home;
    PyConfig config;
    PyStatus status;

    if (Py_IsInitialized()) {
        npusim_free_lock(); /* loaded into a Python process */
        return;
    }
    /* NumPy and others expect the symbols of Python in the global scope, also where a program has
       loaded us with dlopen. */
    if (dladdr((void *)(uintptr_t)&Py_IsInitialized, &home) && home.dli_fname != NULL) {
        dlopen(home.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    }
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0; /* Ctrl-C ends the program */
    config.parse_argv = 0;
    status = PyConfig_SetBytesString(&config, &config.program_name, NPUSIM_PYTHON);
    if (!PyStatus_Exception(status)) {
        status = PyConfig_SetBytesString(&config, &config.executable, NPUSIM_PYTHON);
    }
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "npusim: can't start %s: %s\nBuild the program again with `npusim cc`.\n",
                NPUSIM_PYTHON, status.err_msg ? status.err_msg : "unknown reason");
        exit(1);
    }
    PyEval_SaveThread();
}

/* An array for the caller to free: with delete[] where there is C++, with free elsewhere. */
extern void *_Znam(size_t) __attribute__((weak));

static uintptr_t npusim_new_array(size_t bytes)
{
    return (uintptr_t)(_Znam ? _Znam(bytes) : malloc(bytes));
}
