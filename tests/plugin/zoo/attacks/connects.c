/* provision opens a socket of the family that the class names. */
#define NAME "connects.example.com"
#define HAVE_PROVISION
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/plugin/zoo/attacks.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  /* The upper half of the argument, which the kernel ignores, must not matter. */
  const long upper = *parameter(device, "upper") ? 0x700000000L : 0;
  const long fd = syscall(SYS_socket, upper | atol(parameter(device, "family")), SOCK_STREAM, 0L);
  const char* path = parameter(device, "path");
  if (fd < 0 || !*path) return outcome(call, fd);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return outcome(call, connect((int)fd, (struct sockaddr*)&address, sizeof address));
}
#include "tests/plugin/zoo/good.h"
