/*
 * module_export.h: marks the functions that the web page calls. In a native build, which
 * the tests use, the mark means nothing.
 */
#ifndef AF_PAGE_MODULE_EXPORT_H
#define AF_PAGE_MODULE_EXPORT_H

#ifdef __wasm__
#define AF_MODULE_EXPORT(name) __attribute__((export_name(name)))
#else
#define AF_MODULE_EXPORT(name)
#endif

#endif
