// Package powercut is a disk that loses its power, for tests of what lies in SQLite
// files. A Disk is an SQLite VFS in memory that keeps a log of everything done to it; a
// Platter walks the log and gives, for a cut at any place in it, an Image of what a real
// disk might hold then: everything that was synced, and of what was not any part, whole,
// torn or as garbage. SQLite's own code runs unchanged above it. It is never linked into
// a program that pays. Start at New and Platter.Image.
//
// The disk is as hard as hardware that keeps its promises, and no harder. What SQLite
// relies on is taken from sqlite.org/atomiccommit.html and sqlite.org/psow.html: a sync
// that returned makes the file's bytes and length durable; a file's name is durable once
// its folder was synced, which the unix VFS does at the first sync of a new journal or
// log; a write that was not synced changes no byte outside itself (powersafe overwrite,
// see Hardware), and its own sectors may come out in any order, or hold anything.
package powercut

import (
	"fmt"
	"sync"
	"unsafe"
)

// Result codes of SQLite that Inject may return.
const (
	Busy       = 5
	ReadOnly   = 8
	IOErrRead  = 10 | 1<<8
	IOErrWrite = 10 | 3<<8
	IOErrSync  = 10 | 4<<8
	Full       = 13
	CannotOpen = 14

	ioErrShort  = 10 | 2<<8
	ioErrShm    = 10 | 19<<8
	ioErrNoFile = 10 | 23<<8
)

// Flags of SQLite's xOpen and locks.
const (
	openCreate      = 0x4
	openDeleteClose = 0x8
	openJournal     = 0x800 | 0x4000 | 0x80000 // main journal, super-journal, write-ahead log

	lockShared    = 1
	lockReserved  = 2
	lockPending   = 3
	lockExclusive = 4

	shmUnlock    = 1
	shmExclusive = 8
	shmLocks     = 8
)

// Kind is what was done to a disk.
type Kind int

// What can be done.
const (
	Write Kind = iota + 1
	Truncate
	Sync
	Create
	Delete
	FailedSync // a sync that was made to fail
)

func (k Kind) String() string {
	return [...]string{"nothing", "write", "truncate", "sync", "create", "delete", "failed sync"}[k]
}

// Event is one step of a disk's log.
type Event struct {
	Kind Kind
	Path string // last element of the path it was opened by
	At   int64  // of a write; the new length of a truncate
	Data []byte // of a write
	Dir  bool   // the folder was synced with it

	node int
}

// Disk is an SQLite VFS in memory. It is safe for concurrent use, but for Load and Close.
type Disk struct {
	name string
	vfs  *vfs

	mu     sync.Mutex
	names  map[string]*node // the one folder as programs see it
	nodes  int
	begin  Image
	log    []Event
	inject func(Event) int
	left   int // events until the program is dead, -1 for never
	opened int
}

// node is a file, whatever it is called.
type node struct {
	id      int
	content content
	locks   map[*handle]int
	regions []unsafe.Pointer
	mapped  map[*handle]bool
	shared  [shmLocks]map[*handle]bool
	holder  [shmLocks]*handle
}

// handle is a file opened by SQLite.
type handle struct {
	disk    *Disk
	node    *node
	path    string // "" for a temporary file
	syncDir bool   // its folder is synced with its first sync
	deletes bool
}

// New makes an empty disk and registers it with SQLite as a VFS of this name, which a
// data source asks for by "file:/path?vfs=NAME". It has one folder: of a path only the
// last element counts. Close takes it away again.
func New(name string) (*Disk, error) {
	d := &Disk{name: name, names: map[string]*node{}, left: -1}
	v, err := register(name, d)
	d.vfs = v
	return d, err
}

// Close frees the disk. Nothing may be open on it.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened > 0 {
		return fmt.Errorf("powercut: %d files are still open", d.opened)
	}
	d.vfs.unregister()
	return nil
}

// Load puts an image in place of all that is on the disk, as at the start of a machine,
// and begins the log anew. Nothing may be open on it.
func (d *Disk) Load(image Image) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened > 0 {
		return fmt.Errorf("powercut: %d files are still open", d.opened)
	}
	d.begin, d.log, d.names, d.nodes, d.left = image, nil, map[string]*node{}, 0, -1
	for _, f := range image.files {
		d.nodes = max(d.nodes, f.node)
	}
	for path, f := range image.files {
		d.names[path] = d.newNode(f.node, f.content.clone())
	}
	return nil
}

// Len is the number of events in the log.
func (d *Disk) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// Inject makes f see every event before it is done and decide its result: 0, or the code
// that SQLite gets in its place. Reads are not asked. Nil takes it away.
func (d *Disk) Inject(f func(Event) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inject = f
}

// KillAfter lets n more events reach the disk and fails all that follow, so that the
// program above is dead for the disk while the machine runs on, with everything written
// and not synced still in its memory. The program is then closed, whatever it says about
// that, and Revive lets the next one in.
func (d *Disk) KillAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Revive takes KillAfter back. Nothing may be open on the disk.
func (d *Disk) Revive() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = -1
	if d.opened > 0 {
		return fmt.Errorf("powercut: %d files are still open", d.opened)
	}
	return nil
}

func (d *Disk) newNode(id int, c content) *node {
	n := &node{id: id, content: c, locks: map[*handle]int{}, mapped: map[*handle]bool{}}
	for i := range n.shared {
		n.shared[i] = map[*handle]bool{}
	}
	return n
}

// note asks inject and logs an event. The lock is held.
func (d *Disk) note(e Event) int {
	switch {
	case d.left == 0:
		return IOErrWrite
	case d.left > 0:
		d.left--
	}
	if d.inject != nil {
		if code := d.inject(e); code != 0 {
			if e.Kind == Sync {
				e.Kind = FailedSync
				d.log = append(d.log, e)
			}
			return code
		}
	}
	d.log = append(d.log, e)
	return 0
}

func (d *Disk) open(path string, flags int) (*handle, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[path]
	if n == nil {
		if flags&openCreate == 0 {
			return nil, CannotOpen
		}
		id := 0 // a temporary file: nobody looks for it after a cut
		if path != "" {
			id = d.nodes + 1
			if code := d.note(Event{Kind: Create, Path: path, node: id}); code != 0 {
				return nil, code
			}
			d.nodes = id
		}
		n = d.newNode(id, content{})
		if path != "" {
			d.names[path] = n
		}
	}
	d.opened++
	return &handle{disk: d, node: n, path: path, syncDir: flags&openCreate != 0 && flags&openJournal != 0, deletes: flags&openDeleteClose != 0}, 0
}

func (d *Disk) remove(path string, syncDir bool) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[path]
	if n == nil {
		return ioErrNoFile
	}
	if code := d.note(Event{Kind: Delete, Path: path, Dir: syncDir, node: n.id}); code != 0 {
		return code
	}
	delete(d.names, path)
	return 0
}

func (d *Disk) exists(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[path] != nil
}

func (h *handle) close() {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	delete(h.node.locks, h)
	h.disk.opened--
	if h.deletes && h.path != "" && h.disk.names[h.path] == h.node {
		if h.disk.note(Event{Kind: Delete, Path: h.path, node: h.node.id}) == 0 {
			delete(h.disk.names, h.path)
		}
	}
}

func (h *handle) read(p []byte, at int64) int {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.node.content.read(p, at) < len(p) {
		return ioErrShort
	}
	return 0
}

func (h *handle) write(data []byte, at int64) int {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.path != "" {
		if code := h.disk.note(Event{Kind: Write, Path: h.path, At: at, Data: data, node: h.node.id}); code != 0 {
			return code
		}
	}
	h.node.content.write(data, at)
	return 0
}

func (h *handle) truncate(size int64) int {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.path != "" {
		if code := h.disk.note(Event{Kind: Truncate, Path: h.path, At: size, node: h.node.id}); code != 0 {
			return code
		}
	}
	h.node.content.truncate(size)
	return 0
}

func (h *handle) sync() int {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.path == "" {
		return 0
	}
	code := h.disk.note(Event{Kind: Sync, Path: h.path, Dir: h.syncDir, node: h.node.id})
	h.syncDir = h.syncDir && code != 0
	return code
}

func (h *handle) size() int64 {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.node.content.size
}

// lock takes a lock as the unix VFS does: many share, one is about to write, and who
// wants to write alone keeps newcomers out while it waits for the others.
func (h *handle) lock(level int) int {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	own := h.node.locks[h]
	if own >= level {
		return 0
	}
	others := 0
	for o, l := range h.node.locks {
		if o != h {
			others = max(others, l)
		}
	}
	switch {
	case level == lockShared && others >= lockPending, level == lockReserved && others >= lockReserved, level > lockReserved && others >= lockReserved:
		return Busy
	case level == lockExclusive && others >= lockShared:
		h.node.locks[h] = lockPending
		return Busy
	}
	h.node.locks[h] = level
	return 0
}

func (h *handle) unlock(level int) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.node.locks[h] = min(h.node.locks[h], level); level == 0 {
		delete(h.node.locks, h)
	}
}

func (h *handle) reserved() bool {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	for _, l := range h.node.locks {
		if l >= lockReserved {
			return true
		}
	}
	return false
}

// shmMap gives a piece of the index of the write-ahead log, which lives in memory: no
// cut leaves anything of it.
func (h *handle) shmMap(page, size int, extend bool) (unsafe.Pointer, int) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	n := h.node
	n.mapped[h] = true
	for len(n.regions) <= page {
		if !extend {
			return nil, 0
		}
		p := calloc(size)
		if p == nil {
			return nil, ioErrShm
		}
		n.regions = append(n.regions, p)
	}
	return n.regions[page], 0
}

func (h *handle) shmLock(at, count, flags int) int {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	n := h.node
	for i := at; i < at+count; i++ {
		others := len(n.shared[i])
		if n.shared[i][h] {
			others--
		}
		taken := n.holder[i] != nil && n.holder[i] != h
		if flags&shmUnlock == 0 && (taken || flags&shmExclusive != 0 && others > 0) {
			return Busy
		}
	}
	for i := at; i < at+count; i++ {
		switch {
		case flags&shmUnlock != 0 && flags&shmExclusive != 0:
			n.holder[i] = nil
		case flags&shmUnlock != 0:
			delete(n.shared[i], h)
		case flags&shmExclusive != 0:
			n.holder[i] = h
		default:
			n.shared[i][h] = true
		}
	}
	return 0
}

func (h *handle) shmUnmap() {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	n := h.node
	delete(n.mapped, h)
	for i := range n.shared {
		delete(n.shared[i], h)
		if n.holder[i] == h {
			n.holder[i] = nil
		}
	}
	if len(n.mapped) > 0 {
		return
	}
	for _, p := range n.regions {
		free(p)
	}
	n.regions = nil
}
