/*
 * pasted_gpu.c: nvidia-smi as a table, as a list (-L) and as comma-separated
 * values, and rocm-smi. Long forms with "key : value" lines are in
 * pasted_report.c.
 */
#include "kit/machine/pasted_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "gfx942" of "gfx942:sramecc+:xnack-", "9.0" of "9.0"; false for anything else. */
static bool parse_sm(const char *text, char *sm, size_t size_bytes)
{
    char word[24];
    size_t len = strcspn(text, ":) ,|");
    snprintf(word, sizeof word, "%.*s", (int)(len < 23 ? len : 23), text);
    return af_machine_gpu_sm_parse(word, sm, size_bytes);
}

void af_pasted_take_gpu(struct af_pasted_reader *reader, size_t index, struct af_span name,
                        const char *sm)
{
    char target[24];
    if (index >= AF_PASTED_GPUS_MAX)
        return;
    struct af_pasted_gpu *gpu = &reader->gpus[index];
    if (reader->gpus_loose) {
        reader->gpu_named = reader->gpus[0];
        memset(reader->gpus, 0, sizeof reader->gpus);
        reader->gpu_count = 0;
        reader->gpus_loose = false;
    }
    reader->gpu_count = index + 1 > reader->gpu_count ? index + 1 : reader->gpu_count;
    reader->gpu_current = index;
    const char *in_name = name.len == 0 ? NULL : strstr(name.data, "(gfx");
    if (in_name != NULL && in_name < name.data + name.len && sm == NULL) {
        sm = in_name + 1;
        name.len = (size_t)(in_name - name.data);
    }
    name = af_text_trim(name);
    af_pasted_keep(reader, &gpu->name, "GPU", name.data, name.len);
    static const char *const on_arm[] = {"GH200", "GB200", "GB300", "GB10",
                                         "Orin",  "Thor",  "Xavier"};
    for (size_t i = 0; i < AF_COUNT(on_arm); i++)
        if (name.len > 0 && memmem(name.data, name.len, on_arm[i], strlen(on_arm[i])) != NULL)
            af_pasted_take(reader, AF_PASTED_ARCH, "aarch64", 7);
    if (sm != NULL && parse_sm(sm, target, sizeof target))
        af_pasted_keep(reader, &gpu->sm, NULL, target, strlen(target));
}

void af_pasted_take_gpu_memory(struct af_pasted_reader *reader, size_t index, const char *mib)
{
    if (index < AF_PASTED_GPUS_MAX)
        af_pasted_keep(reader, &reader->gpus[index].memory_mib, NULL, mib,
                       strspn(mib, "0123456789"));
}

/* "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |          0 |" */
static bool take_row(struct af_pasted_reader *reader, const char *line)
{
    char *end;
    const char *digits = line + 1 + strspn(line + 1, " ");
    if (line[0] != '|' || !isdigit((unsigned char)*digits))
        return false;
    unsigned long index = strtoul(digits, &end, 10);
    const char *bar = strchr(end, '|');
    if (bar == NULL || *end != ' ' || index >= AF_PASTED_GPUS_MAX)
        return false;
    const char *bus = bar + 1 + strspn(bar + 1, " ");
    if (strchr(bus, '|') == NULL || (!isxdigit((unsigned char)*bus) && *bus != 'N'))
        return false;
    struct af_span text = af_text_trim((struct af_span){end, (size_t)(bar - end)});
    /* the last word is the state of persistence or the driver model */
    while (text.len > 0 && text.data[text.len - 1] != ' ')
        text.len--;
    if (text.len == 0 || !isalpha((unsigned char)text.data[0]) || text.data[1] == '/')
        return false;
    af_pasted_take_gpu(reader, index, text, NULL);
    return true;
}

/* "| N/A   31C    P0   62W / 400W |   1234MiB / 81920MiB |  0%  Default |" */
static bool take_memory(struct af_pasted_reader *reader, const char *line)
{
    const char *slash = strstr(line, "MiB /");
    if (line[0] != '|' || slash == NULL || reader->gpu_count == 0 || reader->gpus_loose)
        return false;
    const char *total = slash + strlen("MiB /");
    total += strspn(total, " ");
    af_pasted_take_gpu_memory(reader, reader->gpu_current, total);
    return true;
}

/* "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-...)", also in collect_env; "GPU 0,1: NVIDIA H20" */
static bool take_list(struct af_pasted_reader *reader, const char *line)
{
    const char *name = strstr(line, ": "), *uuid = strstr(line, " (UUID");
    if (!af_starts_with(line, "GPU ") || name == NULL ||
        line + 4 + strspn(line + 4, "0123456789,") != name)
        return false;
    name += strspn(name, ": ");
    size_t len = uuid != NULL && uuid > name ? (size_t)(uuid - name) : strlen(name);
    bool any = false;
    for (const char *at = line + 3; at != NULL && at < name; at = strchr(at + 1, ',')) {
        unsigned long index =
            isdigit((unsigned char)at[1]) ? strtoul(at + 1, NULL, 10) : AF_PASTED_GPUS_MAX;
        if (index >= AF_PASTED_GPUS_MAX)
            break;
        af_pasted_take_gpu(reader, index, (struct af_span){name, len}, NULL);
        any = true;
    }
    return any;
}

/* What a field of `nvidia-smi --query-gpu` is, judged by its form. */
static void take_field(struct af_pasted_reader *reader, size_t index, struct af_span field)
{
    size_t digits = strspn(field.data, "0123456789");
    size_t dotted = strspn(field.data, "0123456789.");
    const char *unit = field.data + digits;
    if (digits > 0 && af_starts_with(unit, " MiB") && field.len == digits + 4)
        af_pasted_take_gpu_memory(reader, index, field.data);
    else if (digits >= 3 && *unit == '.' && field.len == dotted)
        af_pasted_take(reader, AF_PASTED_DRIVER, field.data, dotted);
    else if (digits > 0 && digits <= 2 && dotted == digits + 2 && field.len == dotted)
        af_pasted_take_gpu(reader, index, (struct af_span){0}, field.data);
}

/* "NVIDIA A100-SXM4-80GB, 81920 MiB, 550.54.15, 8.0", fields in any order */
static bool take_csv(struct af_pasted_reader *reader, const char *line)
{
    static const char *const starts[] = {"NVIDIA ", "Tesla ", "GeForce ", "Quadro "};
    struct af_span fields[8];
    size_t count = 0;
    const struct af_span *name = NULL;
    if (strstr(line, ", ") == NULL)
        return false;
    for (const char *at = line; count < AF_COUNT(fields); at++) {
        size_t len = strcspn(at, ",");
        fields[count] = af_text_trim((struct af_span){at, len});
        for (size_t i = 0; i < AF_COUNT(starts); i++)
            name = af_starts_with(fields[count].data, starts[i]) ? &fields[count] : name;
        count++;
        at += len;
        if (*at == '\0')
            break;
    }
    bool first = name == fields || strspn(fields[0].data, "0123456789") == fields[0].len;
    if (name == NULL || !first || reader->csv_next >= AF_PASTED_GPUS_MAX)
        return false;
    size_t index = reader->csv_next++;
    af_pasted_take_gpu(reader, index, *name, NULL);
    for (size_t i = 0; i < count; i++)
        take_field(reader, index, fields[i]);
    return true;
}

/* "GPU[0] : Card Series: AMD Instinct MI300X", "GPU[0] : GFX Version: gfx942" */
static bool take_rocm_smi(struct af_pasted_reader *reader, const char *line)
{
    static const char *const labels[] = {"GFX Version:", "Card Series:", "Card series:"};
    char *end;
    if (!af_starts_with(line, "GPU[") || !isdigit((unsigned char)line[4]))
        return false;
    unsigned long index = strtoul(line + 4, &end, 10);
    for (size_t i = 0; *end == ']' && i < AF_COUNT(labels); i++) {
        const char *label = strstr(end, labels[i]);
        if (label == NULL)
            continue;
        label += strlen(labels[i]);
        label += strspn(label, " ");
        size_t len = i == 0 || af_starts_with(label, "N/A") ? 0 : strlen(label);
        if (i == 0 || len > 0)
            af_pasted_take_gpu(reader, index, (struct af_span){label, len},
                               i == 0 ? label : NULL);
        return true;
    }
    return false;
}

bool af_pasted_gpu_line(struct af_pasted_reader *reader, const char *line)
{
    bool csv = take_csv(reader, line);
    if (!csv)
        reader->csv_next = 0;
    if (af_starts_with(line, "No devices were found")) {
        af_pasted_take(reader, AF_PASTED_GPUS_NONE, "none", 4);
        return true;
    }
    return csv || take_row(reader, line) || take_memory(reader, line) ||
           take_list(reader, line) || take_rocm_smi(reader, line);
}
