/* The devices that the stub tells of. */
#ifndef STUB_DEVICES_H
#define STUB_DEVICES_H

#define STUB_MAX_DEVICES 64
#define STUB_MAX_TEXT 96

struct stub_device {
    char uuid[STUB_MAX_TEXT];
    char name[STUB_MAX_TEXT];
    unsigned long long memory_mib; /* 0: the device does not report it */
};

/* Reads the devices that this process sees into `devices`; how many they are. */
unsigned stub_devices(struct stub_device *devices);

#endif
