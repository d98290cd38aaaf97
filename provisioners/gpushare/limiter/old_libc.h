/* Versions of libc's functions: the oldest ones, so that the libraries load in containers of any age. The newest
 * function that is used is of glibc 2.2.5. Included by every source of the libraries. */
#ifndef EGPU_PROVISIONERS_GPUSHARE_LIMITER_OLD_LIBC_H
#define EGPU_PROVISIONERS_GPUSHARE_LIMITER_OLD_LIBC_H

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
__asm__(".symver memcpy,memcpy@GLIBC_2.2.5");
#endif

#endif
