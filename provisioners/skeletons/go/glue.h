/* Functions that Go can't call directly: calls through the host's table. */
#include <stdlib.h>

#include "api/plugin/provisioner.h"

void skeletonMessage(const egpu_call* call, const char* text);
void skeletonKey(const egpu_call* call, const char* key);
void skeletonEnv(const egpu_call* call, const char* name, const char* value);
void skeletonDeviceNode(const egpu_call* call, const char* path);
void skeletonCdiDevice(const egpu_call* call, const char* name);
