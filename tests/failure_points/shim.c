/* Preloaded into a process: the n-th call that changes what is below a folder fails, or a signal comes there.
 *
 * The folder is FAULT_ROOT. FAULT_FILE is shared by all processes: the number of calls so far, the call that is meant
 * (0: none), and what is to happen there: an errno, or 1000 and a signal. With `lasting`, all later ones fail, too.
 * Every write of Python, Arrow and the engine comes through here, as all of them use the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct shared {
    atomic_long count, meant, what, lasting;
    char last[64];
};

static struct shared *shared;
static const char *root;

__attribute__((constructor)) static void start(void) {
    const char *file = getenv("FAULT_FILE");
    root = getenv("FAULT_ROOT");
    if (!file || !root) return;
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = real(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) shared = at;
}

static int below(const char *path) { return path && strncmp(path, root, strlen(root)) == 0; }

static int fd_below(int fd) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return below(path);
}

static int at_below(int dir, const char *path) {
    return path && path[0] == '/' ? below(path) : dir != AT_FDCWD && fd_below(dir);
}

/* Whether this call is to fail; with errno set. */
static int fails(const char *name) {
    long number = atomic_fetch_add(&shared->count, 1) + 1;
    long meant = atomic_load(&shared->meant), what = atomic_load(&shared->what);
    if (!meant || number < meant || (number > meant && !(atomic_load(&shared->lasting) && what < 1000))) return 0;
    if (number == meant) strncpy(shared->last, name, sizeof shared->last - 1);
    if (what < 1000) {
        errno = (int)what;
        return 1;
    }
    kill(getpid(), (int)what - 1000);
    return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CHECK(name, hit)                                                                                               \
    if (shared && (hit) && fails(#name)) return -1;

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                         \
        va_end(rest);                                                                                                  \
        CHECK(name, below(path))                                                                                       \
        return REAL(name)(path, flags, mode);                                                                          \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                   \
    int name(int dir, const char *path, int flags, ...) {                                                              \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                         \
        va_end(rest);                                                                                                  \
        CHECK(name, at_below(dir, path))                                                                               \
        return REAL(name)(dir, path, flags, mode);                                                                     \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
    CHECK(write, fd_below(fd))
    return REAL(write)(fd, data, size);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    CHECK(pwrite, fd_below(fd))
    return REAL(pwrite)(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    CHECK(pwrite64, fd_below(fd))
    return REAL(pwrite64)(fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    CHECK(writev, fd_below(fd))
    return REAL(writev)(fd, parts, count);
}
int ftruncate(int fd, off_t size) {
    CHECK(ftruncate, fd_below(fd))
    return REAL(ftruncate)(fd, size);
}
int fsync(int fd) {
    CHECK(fsync, fd_below(fd))
    return REAL(fsync)(fd);
}
int fdatasync(int fd) {
    CHECK(fdatasync, fd_below(fd))
    return REAL(fdatasync)(fd);
}
int rename(const char *from, const char *to) {
    CHECK(rename, below(from) || below(to))
    return REAL(rename)(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    CHECK(renameat, at_below(a, from) || at_below(b, to))
    return REAL(renameat)(a, from, b, to);
}
int mkdir(const char *path, mode_t mode) {
    CHECK(mkdir, below(path))
    return REAL(mkdir)(path, mode);
}
int mkdirat(int dir, const char *path, mode_t mode) {
    CHECK(mkdirat, at_below(dir, path))
    return REAL(mkdirat)(dir, path, mode);
}
int unlink(const char *path) {
    CHECK(unlink, below(path))
    return REAL(unlink)(path);
}
int unlinkat(int dir, const char *path, int flags) {
    CHECK(unlinkat, at_below(dir, path))
    return REAL(unlinkat)(dir, path, flags);
}
int rmdir(const char *path) {
    CHECK(rmdir, below(path))
    return REAL(rmdir)(path);
}
