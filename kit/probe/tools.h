/*
 * tools.h: which configuration files an installer would read. Private to this
 * module.
 */
#ifndef AF_KIT_PROBE_TOOLS_H
#define AF_KIT_PROBE_TOOLS_H

#include "kit/probe/probes.h"

/* Fills `config_files` of the tool `name`, strongest first. */
void af_tool_config_files(struct af_probe *probe, const char *name,
                          struct af_fact *config_files);

/* Whether the TOML file has a table that starts with `table`, as "[tool.uv". */
bool af_probe_toml_has_table(const char *path, const char *table);

#endif
