#ifndef GRATTOIR_POWERCUT_VFS_H
#define GRATTOIR_POWERCUT_VFS_H

#include "sqlite.h"

/* powercut_new registers a VFS of this name whose calls go to the disk of this handle; null when it cannot. */
sqlite3_vfs *powercut_new(const char *name, uintptr_t disk);
/* powercut_free takes it away again; nothing may be open on it. */
void powercut_free(sqlite3_vfs *vfs);
/* powercut_abi is 0 when SQLite's own VFS, read through our declarations, makes sense; else which test failed. */
int powercut_abi(void);

#endif
