/* provision tries to get control of its parent process, the controller. */
#define NAME "traces.example.com"
#define HAVE_PROVISION
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/plugin/zoo/attacks.h"
static long opened(const char* format) {
  char path[64];
  snprintf(path, sizeof path, format, (int)getppid());
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  char text[16];
  if (fd < 0) return -1;
  const ssize_t n = read(fd, text, sizeof text);
  close(fd);
  return n;
}
static int provision(const egpu_call* call, const egpu_device* device) {
  const char* how = parameter(device, "how");
  const pid_t parent = getppid();
  char byte = 0;
  struct iovec iov = {&byte, 1};
  struct rlimit none = {0, 0};
  if (strcmp(how, "ptrace") == 0) return outcome(call, ptrace(PTRACE_SEIZE, parent, 0, 0));
  if (strcmp(how, "readv") == 0) return outcome(call, process_vm_readv(parent, &iov, 1, &iov, 1, 0));
  if (strcmp(how, "mem") == 0) return outcome(call, opened("/proc/%d/mem"));
  if (strcmp(how, "environ") == 0) return outcome(call, opened("/proc/%d/environ"));
  if (strcmp(how, "root") == 0) return outcome(call, opened("/proc/%d/root/etc/passwd"));
  if (strcmp(how, "kill") == 0) return outcome(call, kill(parent, SIGCONT));
  if (strcmp(how, "tgkill") == 0) return outcome(call, syscall(SYS_tgkill, parent, parent, SIGCONT));
  if (strcmp(how, "owner") == 0) {
    /* The kernel accepts any owner here and checks the permission when it sends the signal. */
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[0], F_SETFL, O_ASYNC) != 0) return outcome(call, -1);
    return outcome(call, fcntl(ends[0], F_SETOWN, parent));
  }
  if (strcmp(how, "affinity") == 0) {
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    return outcome(call, sched_setaffinity(parent, sizeof all, &all));
  }
  if (strcmp(how, "priority") == 0) return outcome(call, setpriority(PRIO_PROCESS, (id_t)parent, 0));
  if (strcmp(how, "prlimit") == 0) return outcome(call, prlimit(parent, RLIMIT_CORE, &none, 0));
  errno = EINVAL;
  return outcome(call, -1);
}
#include "tests/plugin/zoo/good.h"
