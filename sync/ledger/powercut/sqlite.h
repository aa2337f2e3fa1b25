/*
** The part of SQLite's interface that this package is called through. SQLite itself is
** compiled by github.com/mattn/go-sqlite3, whose header lies outside our include path;
** these declarations are from sqlite3.h 3.53 and part of its stable ABI: structures only
** grow at their end, and say by iVersion how far they reach. New checks at run time that
** SQLite's own VFS, read through them, makes sense.
*/
#ifndef GRATTOIR_POWERCUT_SQLITE_H
#define GRATTOIR_POWERCUT_SQLITE_H

#include <stdint.h>

typedef int64_t sqlite3_int64;
typedef struct sqlite3_file sqlite3_file;
typedef struct sqlite3_io_methods sqlite3_io_methods;
typedef struct sqlite3_vfs sqlite3_vfs;

struct sqlite3_file {
  const sqlite3_io_methods *pMethods;
};

struct sqlite3_io_methods { /* version 2: with shared memory, without memory mapping */
  int iVersion;
  int (*xClose)(sqlite3_file*);
  int (*xRead)(sqlite3_file*, void*, int iAmt, sqlite3_int64 iOfst);
  int (*xWrite)(sqlite3_file*, const void*, int iAmt, sqlite3_int64 iOfst);
  int (*xTruncate)(sqlite3_file*, sqlite3_int64 size);
  int (*xSync)(sqlite3_file*, int flags);
  int (*xFileSize)(sqlite3_file*, sqlite3_int64 *pSize);
  int (*xLock)(sqlite3_file*, int);
  int (*xUnlock)(sqlite3_file*, int);
  int (*xCheckReservedLock)(sqlite3_file*, int *pResOut);
  int (*xFileControl)(sqlite3_file*, int op, void *pArg);
  int (*xSectorSize)(sqlite3_file*);
  int (*xDeviceCharacteristics)(sqlite3_file*);
  int (*xShmMap)(sqlite3_file*, int iPg, int pgsz, int extend, void volatile **);
  int (*xShmLock)(sqlite3_file*, int offset, int n, int flags);
  void (*xShmBarrier)(sqlite3_file*);
  int (*xShmUnmap)(sqlite3_file*, int deleteFlag);
};

struct sqlite3_vfs { /* version 2 */
  int iVersion;
  int szOsFile;
  int mxPathname;
  sqlite3_vfs *pNext;
  const char *zName;
  void *pAppData;
  int (*xOpen)(sqlite3_vfs*, const char *zName, sqlite3_file*, int flags, int *pOutFlags);
  int (*xDelete)(sqlite3_vfs*, const char *zName, int syncDir);
  int (*xAccess)(sqlite3_vfs*, const char *zName, int flags, int *pResOut);
  int (*xFullPathname)(sqlite3_vfs*, const char *zName, int nOut, char *zOut);
  void *(*xDlOpen)(sqlite3_vfs*, const char *zFilename);
  void (*xDlError)(sqlite3_vfs*, int nByte, char *zErrMsg);
  void (*(*xDlSym)(sqlite3_vfs*, void*, const char *zSymbol))(void);
  void (*xDlClose)(sqlite3_vfs*, void*);
  int (*xRandomness)(sqlite3_vfs*, int nByte, char *zOut);
  int (*xSleep)(sqlite3_vfs*, int microseconds);
  int (*xCurrentTime)(sqlite3_vfs*, double*);
  int (*xGetLastError)(sqlite3_vfs*, int, char *);
  int (*xCurrentTimeInt64)(sqlite3_vfs*, sqlite3_int64*);
};

/*
** Weak: this package links before SQLite is there, and resolves them in the program's
** own link. A program without go-sqlite3 gets null pointers, which New reports.
*/
extern int sqlite3_libversion_number(void) __attribute__((weak));
extern sqlite3_vfs *sqlite3_vfs_find(const char *zVfsName) __attribute__((weak));
extern int sqlite3_vfs_register(sqlite3_vfs*, int makeDflt) __attribute__((weak));
extern int sqlite3_vfs_unregister(sqlite3_vfs*) __attribute__((weak));
extern int sqlite3_uri_boolean(const char *zFile, const char *zParam, int bDefault) __attribute__((weak));

#define SQLITE_OK 0
#define SQLITE_NOTFOUND 12
#define SQLITE_FCNTL_MMAP_SIZE 18
#define SQLITE_IOCAP_POWERSAFE_OVERWRITE 0x00001000

#endif
