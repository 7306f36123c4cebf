/* Which devices the stub tells of: those of the environment or of a file, as far as they are visible. */
#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy(char *to, const char *from) { snprintf(to, STUB_MAX_TEXT, "%s", from); }

/* UUID[:MiB[:name]] */
static void read_device(char *text, struct stub_device *device) {
    char *memory = strchr(text, ':');
    char *name = NULL;
    if (memory) {
        *memory++ = 0;
        name = strchr(memory, ':');
        if (name) *name++ = 0;
    }
    copy(device->uuid, text);
    copy(device->name, name ? name : "NVIDIA Stub");
    device->memory_mib = memory ? strtoull(memory, NULL, 10) : 0;
}

static unsigned read_list(const char *list, struct stub_device *devices) {
    unsigned count = 0;
    char *text = strdup(list), *rest = text, *one;
    while (text && count < STUB_MAX_DEVICES && (one = strsep(&rest, ",\n")))
        if (*one) read_device(one, &devices[count++]);
    free(text);
    return count;
}

static unsigned described(struct stub_device *devices) {
    const char *list = getenv("STUB_NVML_DEVICES");
    if (list) return read_list(list, devices);
    const char *path = getenv("STUB_NVML_FILE");
    FILE *file = fopen(path ? path : "/etc/stub-nvml/devices", "r");
    if (!file) return 0;
    static char text[STUB_MAX_DEVICES * 2 * STUB_MAX_TEXT];
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    return read_list(text, devices);
}

unsigned stub_devices(struct stub_device *devices) {
    static struct stub_device all[STUB_MAX_DEVICES];
    unsigned known = described(all);
    const char *visible = getenv("NVIDIA_VISIBLE_DEVICES");
    const char *sees_all = getenv("STUB_NVML_SEES_ALL");
    int restricted = visible && strncmp(visible, "GPU-", 4) == 0 && !(sees_all && *sees_all == '1');
    if (!restricted) {
        memcpy(devices, all, known * sizeof *all);
        return known;
    }
    unsigned count = read_list(visible, devices);
    for (unsigned seen = 0; seen < count; seen++)
        for (unsigned at = 0; at < known; at++)
            if (strcmp(devices[seen].uuid, all[at].uuid) == 0) devices[seen] = all[at];
    return count;
}
