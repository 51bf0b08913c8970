/* Stands between a process and its disk (LD_PRELOAD). Below CHAOS_DISK_ROOT it does two things, each if asked to:
 *
 *   CHAOS_DISK_LOG    every write, truncation, name and sync is appended to this file, in the order in which they happened;
 *   CHAOS_DISK_SLOW   while this file exists, a sync takes as many milliseconds longer as it says.
 *
 * A sync is logged twice, when it begins and when it has returned: it makes durable what was written before it began.
 * The layout of a log entry is `struct entry`, then both paths, then the bytes. test_power_loss.py reads it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 'w', TRUNCATE = 't', SYNC_BEGINS = 'b', SYNC_ENDS = 'e', CREATE = 'c', MAKE_FOLDER = 'm', LINK = 'l', MOVE = 'r', REMOVE = 'u' };

struct entry {
    uint32_t kind, thread, path_bytes, other_bytes;
    uint64_t inode, offset, data_bytes;
};

static char root[PATH_MAX];
static const char *slow_file;
static int log_file = -1;

__attribute__((constructor)) static void begin(void) {
    const char *wanted = getenv("CHAOS_DISK_ROOT"), *log = getenv("CHAOS_DISK_LOG");
    slow_file = getenv("CHAOS_DISK_SLOW");
    if (wanted) snprintf(root, sizeof root, "%s/", wanted);
    if (log) log_file = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

#define REAL(name) ({ static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name); real; })

static int ours(const char *path) {
    size_t length = strlen(path);
    return root[0] && strncmp(path, root, strlen(root)) == 0 && !(length > 4 && strcmp(path + length - 4, "-shm") == 0);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* The absolute path of a name, its folder resolved and its last part as it is: the name itself is what changes. */
static void absolute(int folder, const char *name, char *path) {
    char before[PATH_MAX] = "";
    if (name[0] != '/') {
        if (folder == AT_FDCWD) { if (!getcwd(before, sizeof before)) before[0] = 0; }
        else path_of(folder, before);
    }
    snprintf(path, PATH_MAX, "%.2000s%s%.2000s", before, before[0] ? "/" : "", name);
}

static void note(int kind, const char *path, const char *other, uint64_t inode, uint64_t offset, const void *data, uint64_t size) {
    if (log_file < 0) return;
    int saved = errno;
    struct entry entry = { kind, (uint32_t)syscall(SYS_gettid), strlen(path), strlen(other), inode, offset, size };
    struct iovec parts[] = { { &entry, sizeof entry }, { (void *)path, entry.path_bytes }, { (void *)other, entry.other_bytes }, { (void *)data, size } };
    syscall(SYS_writev, log_file, parts, 4);
    errno = saved;
}

/* Whether this is a file or a folder below the root; then its path and inode. */
static int watched(int fd, char *path, struct stat *about) {
    int saved = errno;
    int found = fstat(fd, about) == 0 && (S_ISREG(about->st_mode) || S_ISDIR(about->st_mode)) && path_of(fd, path);
    if (found && S_ISDIR(about->st_mode)) strcat(path, "/");
    found = found && ours(path);
    errno = saved;
    return found;
}

static void written(int fd, const void *data, ssize_t size, off_t offset) {
    char path[PATH_MAX + 1];
    struct stat about;
    if (size <= 0 || log_file < 0 || !watched(fd, path, &about)) return;
    if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - size;
    note(WRITE, path, "", about.st_ino, offset, data, size);
}

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t done = REAL(write)(fd, data, size);
    written(fd, data, done, -1);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
    ssize_t done = REAL(pwrite64)(fd, data, size, offset);
    written(fd, data, done, offset);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

int ftruncate64(int fd, off_t size) {
    char path[PATH_MAX + 1];
    struct stat about;
    int failed = REAL(ftruncate64)(fd, size);
    if (!failed && watched(fd, path, &about)) note(TRUNCATE, path, "", about.st_ino, size, "", 0);
    return failed;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static void delay(void) {
    char text[16] = "";
    int fd = slow_file ? (int)syscall(SYS_openat, AT_FDCWD, slow_file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    if (syscall(SYS_read, fd, text, sizeof text - 1) > 0) {
        long ms = atol(text);
        struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };
        nanosleep(&wait, NULL);
    }
    syscall(SYS_close, fd);
}

static int synced(int fd, int (*real)(int)) {
    char path[PATH_MAX + 1];
    struct stat about;
    if (!watched(fd, path, &about)) return real(fd);
    note(SYNC_BEGINS, path, "", about.st_ino, 0, "", 0);
    delay();
    int failed = real(fd);
    if (!failed) note(SYNC_ENDS, path, "", about.st_ino, 0, "", 0);
    return failed;
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

static int opened(int fd, int flags) {
    char path[PATH_MAX + 1];
    struct stat about;
    if (fd >= 0 && log_file >= 0 && flags & (O_CREAT | O_TRUNC) && watched(fd, path, &about)) {
        if (flags & O_CREAT) note(CREATE, path, "", about.st_ino, 0, "", 0);
        if (flags & O_TRUNC) note(TRUNCATE, path, "", about.st_ino, 0, "", 0);
    }
    return fd;
}

#define MODE(flags) ({ mode_t mode = 0; if ((flags) & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } mode; })

int open64(const char *name, int flags, ...) { mode_t mode = MODE(flags); return opened(REAL(open64)(name, flags, mode), flags); }
int open(const char *name, int flags, ...) { mode_t mode = MODE(flags); return opened(REAL(open64)(name, flags, mode), flags); }
int openat64(int folder, const char *name, int flags, ...) { mode_t mode = MODE(flags); return opened(REAL(openat64)(folder, name, flags, mode), flags); }
int openat(int folder, const char *name, int flags, ...) { mode_t mode = MODE(flags); return opened(REAL(openat64)(folder, name, flags, mode), flags); }

static int named(int failed, int kind, int folder, const char *name, int other_folder, const char *other_name) {
    char path[PATH_MAX], other[PATH_MAX] = "";
    if (failed || log_file < 0) return failed;
    absolute(folder, name, path);
    if (other_name) absolute(other_folder, other_name, other);
    if (ours(path) || ours(other)) note(kind, path, other, 0, 0, "", 0);
    return failed;
}

int mkdir(const char *name, mode_t mode) { return named(REAL(mkdir)(name, mode), MAKE_FOLDER, AT_FDCWD, name, 0, NULL); }
int mkdirat(int folder, const char *name, mode_t mode) { return named(REAL(mkdirat)(folder, name, mode), MAKE_FOLDER, folder, name, 0, NULL); }
int unlink(const char *name) { return named(REAL(unlink)(name), REMOVE, AT_FDCWD, name, 0, NULL); }
int unlinkat(int folder, const char *name, int flags) { return named(REAL(unlinkat)(folder, name, flags), REMOVE, folder, name, 0, NULL); }
int rename(const char *a, const char *b) { return named(REAL(rename)(a, b), MOVE, AT_FDCWD, a, AT_FDCWD, b); }
int renameat(int x, const char *a, int y, const char *b) { return named(REAL(renameat)(x, a, y, b), MOVE, x, a, y, b); }
int link(const char *a, const char *b) { return named(REAL(link)(a, b), LINK, AT_FDCWD, a, AT_FDCWD, b); }
int linkat(int x, const char *a, int y, const char *b, int flags) { return named(REAL(linkat)(x, a, y, b, flags), LINK, x, a, y, b); }
