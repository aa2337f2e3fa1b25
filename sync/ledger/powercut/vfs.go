package powercut

// #include <stdlib.h>
// #include "vfs.h"
import "C"

import (
	"errors"
	"fmt"
	"path"
	"runtime/cgo"
	"unsafe"

	_ "github.com/mattn/go-sqlite3" // SQLite itself, in the same program
)

// vfs is a disk's registration with SQLite.
type vfs struct {
	c    *C.sqlite3_vfs
	self cgo.Handle
}

func register(name string, d *Disk) (*vfs, error) {
	if step := C.powercut_abi(); step != 0 {
		return nil, fmt.Errorf("powercut: SQLite's own VFS is not as sqlite.h declares it (check %d): compare the header with the version that is linked", step)
	}
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	v := &vfs{self: cgo.NewHandle(d)}
	if v.c = C.powercut_new(text, C.uintptr_t(v.self)); v.c == nil {
		v.self.Delete()
		return nil, errors.New("powercut: SQLite does not take the VFS")
	}
	return v, nil
}

func (v *vfs) unregister() {
	C.powercut_free(v.c)
	v.self.Delete()
}

func base(name *C.char) string { return path.Base(C.GoString(name)) }

func handleOf(h C.uintptr_t) *handle { return cgo.Handle(h).Value().(*handle) }

//export powercutOpen
func powercutOpen(disk C.uintptr_t, name *C.char, flags C.int, out *C.uintptr_t) C.int {
	d := cgo.Handle(disk).Value().(*Disk)
	file := ""
	if name != nil {
		file = base(name)
	}
	h, code := d.open(file, int(flags))
	if code == 0 {
		*out = C.uintptr_t(cgo.NewHandle(h))
	}
	return C.int(code)
}

//export powercutClose
func powercutClose(f C.uintptr_t) C.int {
	handleOf(f).close()
	cgo.Handle(f).Delete()
	return 0
}

//export powercutRead
func powercutRead(f C.uintptr_t, p unsafe.Pointer, n C.int, at C.sqlite3_int64) C.int {
	return C.int(handleOf(f).read(unsafe.Slice((*byte)(p), int(n)), int64(at)))
}

//export powercutWrite
func powercutWrite(f C.uintptr_t, p unsafe.Pointer, n C.int, at C.sqlite3_int64) C.int {
	return C.int(handleOf(f).write(C.GoBytes(p, n), int64(at)))
}

//export powercutTruncate
func powercutTruncate(f C.uintptr_t, size C.sqlite3_int64) C.int {
	return C.int(handleOf(f).truncate(int64(size)))
}

//export powercutSync
func powercutSync(f C.uintptr_t) C.int { return C.int(handleOf(f).sync()) }

//export powercutSize
func powercutSize(f C.uintptr_t) C.sqlite3_int64 { return C.sqlite3_int64(handleOf(f).size()) }

//export powercutLock
func powercutLock(f C.uintptr_t, level C.int) C.int { return C.int(handleOf(f).lock(int(level))) }

//export powercutUnlock
func powercutUnlock(f C.uintptr_t, level C.int) C.int {
	handleOf(f).unlock(int(level))
	return 0
}

//export powercutReserved
func powercutReserved(f C.uintptr_t) C.int {
	if handleOf(f).reserved() {
		return 1
	}
	return 0
}

//export powercutDelete
func powercutDelete(disk C.uintptr_t, name *C.char, syncDir C.int) C.int {
	return C.int(cgo.Handle(disk).Value().(*Disk).remove(base(name), syncDir != 0))
}

//export powercutExists
func powercutExists(disk C.uintptr_t, name *C.char) C.int {
	if cgo.Handle(disk).Value().(*Disk).exists(base(name)) {
		return 1
	}
	return 0
}

//export powercutShmMap
func powercutShmMap(f C.uintptr_t, page, size, extend C.int, out *unsafe.Pointer) C.int {
	p, code := handleOf(f).shmMap(int(page), int(size), extend != 0)
	*out = p
	return C.int(code)
}

//export powercutShmLock
func powercutShmLock(f C.uintptr_t, at, n, flags C.int) C.int {
	return C.int(handleOf(f).shmLock(int(at), int(n), int(flags)))
}

//export powercutShmUnmap
func powercutShmUnmap(f C.uintptr_t) C.int {
	handleOf(f).shmUnmap()
	return 0
}

// calloc gives zeroed memory that Go's collector does not move or look into.
func calloc(size int) unsafe.Pointer { return C.calloc(1, C.size_t(size)) }

func free(p unsafe.Pointer) { C.free(p) }
