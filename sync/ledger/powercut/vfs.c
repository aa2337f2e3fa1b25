/*
** The C half of the VFS: every method hands on to Go, with the handle of what it is
** about. Only what touches SQLite's structures is done here.
*/
#include <stdlib.h>
#include <string.h>
#include "vfs.h"
#include "_cgo_export.h"

typedef struct file {
  sqlite3_file base;
  uintptr_t handle;
  int psow; /* whether the program believes in powersafe overwrites, as the unix VFS reads it from the URI */
} file;

#define H(f) (((file*)(f))->handle)
#define D(v) ((uintptr_t)(v)->pAppData)

static int fClose(sqlite3_file *f) { return powercutClose(H(f)); }
static int fRead(sqlite3_file *f, void *p, int n, sqlite3_int64 at) { return powercutRead(H(f), p, n, at); }
static int fWrite(sqlite3_file *f, const void *p, int n, sqlite3_int64 at) { return powercutWrite(H(f), (void*)p, n, at); }
static int fTruncate(sqlite3_file *f, sqlite3_int64 size) { return powercutTruncate(H(f), size); }
static int fSync(sqlite3_file *f, int flags) { (void)flags; return powercutSync(H(f)); }
static int fFileSize(sqlite3_file *f, sqlite3_int64 *size) { *size = powercutSize(H(f)); return SQLITE_OK; }
static int fLock(sqlite3_file *f, int level) { return powercutLock(H(f), level); }
static int fUnlock(sqlite3_file *f, int level) { return powercutUnlock(H(f), level); }
static int fReserved(sqlite3_file *f, int *out) { *out = powercutReserved(H(f)); return SQLITE_OK; }
static int fControl(sqlite3_file *f, int op, void *arg) {
  (void)f;
  if (op != SQLITE_FCNTL_MMAP_SIZE) return SQLITE_NOTFOUND;
  *(sqlite3_int64*)arg = 0; /* nothing is mapped here, whatever is asked for */
  return SQLITE_OK;
}
static int fSectorSize(sqlite3_file *f) { (void)f; return 4096; } /* what the unix VFS says on Linux */
static int fTraits(sqlite3_file *f) { return ((file*)f)->psow ? SQLITE_IOCAP_POWERSAFE_OVERWRITE : 0; }
static int fShmMap(sqlite3_file *f, int page, int size, int extend, void volatile **out) {
  void *p = 0;
  int rc = powercutShmMap(H(f), page, size, extend, &p);
  *out = p;
  return rc;
}
static int fShmLock(sqlite3_file *f, int at, int n, int flags) { return powercutShmLock(H(f), at, n, flags); }
static void fShmBarrier(sqlite3_file *f) { (void)f; __sync_synchronize(); }
static int fShmUnmap(sqlite3_file *f, int deleteIt) { (void)deleteIt; return powercutShmUnmap(H(f)); }

static const sqlite3_io_methods methods = {
  2, fClose, fRead, fWrite, fTruncate, fSync, fFileSize, fLock, fUnlock, fReserved, fControl, fSectorSize, fTraits,
  fShmMap, fShmLock, fShmBarrier, fShmUnmap,
};

static int vOpen(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out) {
  uintptr_t handle = 0;
  int rc;
  memset(f, 0, sizeof(file));
  rc = powercutOpen(D(v), (char*)name, flags, &handle);
  if (rc != SQLITE_OK) return rc;
  f->pMethods = &methods;
  ((file*)f)->handle = handle;
  ((file*)f)->psow = name ? sqlite3_uri_boolean(name, "psow", 1) : 1;
  if (out) *out = flags;
  return SQLITE_OK;
}
static int vDelete(sqlite3_vfs *v, const char *name, int syncDir) { return powercutDelete(D(v), (char*)name, syncDir); }
static int vAccess(sqlite3_vfs *v, const char *name, int flags, int *out) {
  *out = powercutExists(D(v), (char*)name);
  (void)flags;
  return SQLITE_OK;
}
static int vFullPathname(sqlite3_vfs *v, const char *name, int n, char *out) {
  (void)v;
  strncpy(out, name, (size_t)n - 1);
  out[n - 1] = 0;
  return SQLITE_OK;
}

/* The rest is the system's business: it is asked through SQLite's own VFS. */
static int vRandomness(sqlite3_vfs *v, int n, char *out) { (void)v; return sqlite3_vfs_find(0)->xRandomness(sqlite3_vfs_find(0), n, out); }
static int vSleep(sqlite3_vfs *v, int us) { (void)v; return sqlite3_vfs_find(0)->xSleep(sqlite3_vfs_find(0), us); }
static int vCurrentTime(sqlite3_vfs *v, double *out) { (void)v; return sqlite3_vfs_find(0)->xCurrentTime(sqlite3_vfs_find(0), out); }
static int vCurrentTimeInt64(sqlite3_vfs *v, sqlite3_int64 *out) {
  (void)v;
  return sqlite3_vfs_find(0)->xCurrentTimeInt64(sqlite3_vfs_find(0), out);
}
static int vGetLastError(sqlite3_vfs *v, int n, char *out) {
  (void)v;
  if (n > 0) out[0] = 0;
  return 0;
}

sqlite3_vfs *powercut_new(const char *name, uintptr_t disk) {
  sqlite3_vfs *v = calloc(1, sizeof *v);
  if (!v) return 0;
  v->iVersion = 2;
  v->szOsFile = sizeof(file);
  v->mxPathname = 512;
  v->zName = strdup(name);
  v->pAppData = (void*)disk;
  v->xOpen = vOpen;
  v->xDelete = vDelete;
  v->xAccess = vAccess;
  v->xFullPathname = vFullPathname;
  v->xRandomness = vRandomness;
  v->xSleep = vSleep;
  v->xCurrentTime = vCurrentTime;
  v->xGetLastError = vGetLastError;
  v->xCurrentTimeInt64 = vCurrentTimeInt64;
  if (!v->zName || sqlite3_vfs_register(v, 0) != SQLITE_OK) {
    free((void*)v->zName);
    free(v);
    return 0;
  }
  return v;
}

void powercut_free(sqlite3_vfs *v) {
  sqlite3_vfs_unregister(v);
  free((void*)v->zName);
  free(v);
}

int powercut_abi(void) {
  sqlite3_vfs *real;
  int version;
  if (!sqlite3_libversion_number || !sqlite3_vfs_find || !sqlite3_vfs_register || !sqlite3_vfs_unregister || !sqlite3_uri_boolean) return 1;
  version = sqlite3_libversion_number();
  if (version < 3051003 || version >= 4000000) return 2;
  real = sqlite3_vfs_find(0);
  if (!real || real->iVersion < 2 || !real->zName || strcmp(real->zName, "unix") != 0) return 3;
  if (real->mxPathname != 512 || !real->xOpen || !real->xRandomness || !real->xSleep || !real->xCurrentTimeInt64) return 4;
  return 0;
}
