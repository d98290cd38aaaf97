/* provision tries a system call that no plugin needs, or tries to outlive its process. */
#define NAME "breaks-out.example.com"
#define HAVE_PROVISION
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/plugin/zoo/attacks.h"
static long forked(int flags) {
  const long child = syscall(SYS_clone, flags | SIGCHLD, 0L, 0L, 0L, 0L);
  if (child == 0) _exit(0);
  return child;
}
static long attempt(const char* how) {
  int pair[2];
  char zeros[128] = {0};
  if (strcmp(how, "mount") == 0) return mount("none", "/tmp", "tmpfs", 0, "");
  if (strcmp(how, "unshare") == 0) return unshare(CLONE_NEWUSER);
  if (strcmp(how, "clone") == 0) return forked(CLONE_NEWUSER);
  if (strcmp(how, "clone3") == 0) return syscall(SYS_clone3, zeros, 64L);
  if (strcmp(how, "bpf") == 0) return syscall(SYS_bpf, 5L, zeros, 64L);
  if (strcmp(how, "kexec") == 0) return syscall(SYS_kexec_load, 0L, 0L, 0L, 0L);
  if (strcmp(how, "module") == 0) return syscall(SYS_init_module, zeros, 0L, "");
  if (strcmp(how, "io_uring") == 0) return syscall(SYS_io_uring_setup, 4L, zeros);
  if (strcmp(how, "handle") == 0) return syscall(SYS_open_by_handle_at, -100L, zeros, 0L);
  if (strcmp(how, "chroot") == 0) return chroot("/");
  if (strcmp(how, "keyctl") == 0) return syscall(SYS_keyctl, 0L, -3L, 1L);
  if (strcmp(how, "perf") == 0) return syscall(SYS_perf_event_open, zeros, 0L, -1L, -1L, 0L);
  if (strcmp(how, "setsid") == 0) return setsid();
  if (strcmp(how, "setpgid") == 0) return setpgid(0, 0);
  if (strcmp(how, "setuid") == 0)
    return setuid(0) == 0 && getuid() == 0 && prctl(PR_CAPBSET_DROP, 0, 0, 0, 0) == 0 ? 0 : (errno = EPERM, -1);
  if (strcmp(how, "datagram") == 0) return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
  if (strcmp(how, "chmod") == 0) return chmod("/etc/passwd", 0644);
  if (strcmp(how, "dumpable") == 0) return prctl(PR_GET_DUMPABLE) == 0 ? (errno = EPERM, -1) : 0;
  if (strcmp(how, "dumpable-again") == 0) return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (strcmp(how, "outlives") == 0) return prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  if (strcmp(how, "dies-otherwise") == 0) return prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (strcmp(how, "dies") == 0) return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (strcmp(how, "shared-memory") == 0) return shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  if (strcmp(how, "messages") == 0) return msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  if (strcmp(how, "semaphores") == 0) return semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  if (strcmp(how, "queue") == 0) return syscall(SYS_mq_open, "egpu-zoo", O_CREAT | O_RDWR, 0600, 0L);
  if (strcmp(how, "memfd") == 0) return memfd_create("egpu-zoo", 0);
  if (strcmp(how, "privileges") == 0) return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? (errno = EPERM, -1) : 0;
  errno = EINVAL;
  return -1;
}
static int provision(const egpu_call* call, const egpu_device* device) {
  return outcome(call, attempt(parameter(device, "how")));
}
#include "tests/plugin/zoo/good.h"
