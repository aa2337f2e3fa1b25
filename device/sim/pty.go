package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrUnplugged means the device's cable is out: nothing can be sent until Replug.
var ErrUnplugged = errors.New("simulated device is unplugged")

// idleLine is how often the master is tried again while no program holds the
// slave open. The kernel gives no event for "a slave was opened", only an error
// on each read until then.
const idleLine = 5 * time.Millisecond

// pty is one pseudo terminal pair in raw mode. The simulated device holds the
// master; the driver under test opens the slave by its path.
type pty struct {
	master *os.File
	slave  string        // /dev/pts/N
	gone   chan struct{} // closed with the master
	once   sync.Once
}

// openPTY makes a pair. The master is non-blocking from the start, since only
// then do deadlines work on it and does Close wake a blocked reader.
func openPTY() (*pty, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("pseudo terminal: %w (is devpts mounted?)", err)
	}
	p := &pty{master: master, gone: make(chan struct{})}
	if err := p.control(p.prepare); err != nil {
		return nil, errors.Join(fmt.Errorf("pseudo terminal: %w", err), master.Close())
	}
	return p, nil
}

// prepare unlocks the slave, makes the line raw and leaves it hung up, so that
// "no slave open" looks the same before the first open as after the last close.
func (p *pty) prepare(fd int) error {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("number of the slave: %w", err)
	}
	p.slave = "/dev/pts/" + strconv.FormatUint(uint64(n), 10)
	slave, err := unix.Open(p.slave, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("slave %s: %w", p.slave, err)
	}
	return errors.Join(makeRaw(slave), unix.Close(slave))
}

// makeRaw switches off echo and every translation: a new pty is a cooked
// terminal, which would echo scans back and turn CR into LF.
func makeRaw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("terminal settings: %w", err)
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return fmt.Errorf("raw mode: %w", err)
	}
	return nil
}

func (p *pty) control(f func(fd int) error) error {
	raw, err := p.master.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// read waits for bytes from the driver. An error that is not os.ErrClosed never
// comes out: a line nobody has opened is only silent.
func (p *pty) read(b []byte) (int, error) {
	for {
		n, err := p.master.Read(b)
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, os.ErrClosed):
			return 0, err
		}
		select {
		case <-p.gone:
			return 0, os.ErrClosed
		case <-time.After(idleLine):
		}
	}
}

// write sends b, giving up after the limit: a driver that never reads must not
// hold the device for ever.
func (p *pty) write(b []byte, limit time.Duration) error {
	if err := p.master.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if n, err := p.master.Write(b); err != nil {
		return fmt.Errorf("%d of %d bytes taken: %w", n, len(b), err)
	}
	return nil
}

// opened reports whether some program holds the slave open now.
func (p *pty) opened() bool {
	up := false
	err := p.control(func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err := unix.Poll(fds, 0); err != nil {
			return err
		}
		up = fds[0].Revents&unix.POLLHUP == 0
		return nil
	})
	return err == nil && up
}

func (p *pty) close() error {
	var err error
	p.once.Do(func() {
		close(p.gone)
		err = p.master.Close()
	})
	return err
}

// socket is where a pty is plugged in: it owns the by-id link, which vanishes at
// unplug and points at a new slave after replug, as udev does it.
type socket struct {
	link    string // "" for none
	serving sync.WaitGroup

	mu     sync.Mutex
	line   *pty   // nil while unplugged
	path   string // of the last slave
	delay  time.Duration
	closed bool
}

// setDelay makes the link of later plugs come so late.
func (s *socket) setDelay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// plug makes a new pair, links it, and runs serve on it until the pair is gone. It
// does nothing when one is in already.
func (s *socket) plug(serve func(*pty)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("plug in: %w", os.ErrClosed)
	}
	if s.line != nil {
		return nil
	}
	line, err := openPTY()
	if err != nil {
		return err
	}
	if s.delay > 0 {
		d := s.delay
		s.serving.Go(func() { s.linkLater(line, d) })
	} else if err := s.relink(line.slave); err != nil {
		return errors.Join(err, line.close())
	}
	s.line, s.path = line, line.slave
	s.serving.Go(func() { serve(line) })
	return nil
}

// linkLater links a line that is still in after so long, as udev does on a busy system.
// A link that cannot be made then stays away, which is what the driver is to live with.
func (s *socket) linkLater(line *pty, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-line.gone:
		return
	case <-t.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == line {
		_ = s.relink(line.slave)
	}
}

// relink points the link at slave. It replaces a stale link but never a file.
func (s *socket) relink(slave string) error {
	if s.link == "" {
		return nil
	}
	if info, err := os.Lstat(s.link); err == nil && info.Mode()&os.ModeSymlink == 0 {
		return fmt.Errorf("link %s: a file of that name exists; choose another name", s.link)
	}
	if err := os.MkdirAll(filepath.Dir(s.link), 0o755); err != nil {
		return fmt.Errorf("link %s: %w", s.link, err)
	}
	temp := s.link + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("link %s: %w", s.link, err)
	}
	if err := os.Symlink(slave, temp); err != nil {
		return fmt.Errorf("link %s: %w", s.link, err)
	}
	if err := os.Rename(temp, s.link); err != nil {
		return fmt.Errorf("link %s: %w", s.link, err)
	}
	return nil
}

// unplug removes the link and hangs up. The kernel throws away what is under way.
func (s *socket) unplug() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == nil {
		return nil
	}
	line := s.line
	s.line = nil
	var err error
	if s.link != "" {
		if err = os.Remove(s.link); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, line.close())
}

// close unplugs for good and waits for what was serving.
func (s *socket) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.unplug()
	s.serving.Wait()
	return err
}

func (s *socket) current() *pty {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

// where is the path a driver should open.
func (s *socket) where() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != "" {
		return s.link
	}
	return s.path
}

// waitOpen blocks until a program holds the slave open.
func (s *socket) waitOpen(ctx context.Context) error {
	tick := time.NewTicker(idleLine)
	defer tick.Stop()
	for {
		if line := s.current(); line != nil && line.opened() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no program opened %s: %w", s.where(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}
