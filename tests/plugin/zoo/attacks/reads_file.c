/* provision reads, or writes to, the file that the class names. */
#define NAME "reads-file.example.com"
#define HAVE_PROVISION
#include <fcntl.h>
#include <unistd.h>

#include "tests/plugin/zoo/attacks.h"
static int provision(const egpu_call* call, const egpu_device* device) {
  char text[64] = "";
  const int writes = *parameter(device, "write") != 0;
  const int fd = open(parameter(device, "file"), writes ? O_WRONLY | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);
  if (fd < 0) return outcome(call, fd);
  const ssize_t n = writes ? write(fd, "x", 1) : read(fd, text, sizeof text - 1);
  close(fd);
  if (n == 0) errno = ENODATA; /* covered by something empty */
  return outcome(call, n > 0 ? n : -1);
}
#include "tests/plugin/zoo/good.h"
