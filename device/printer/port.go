package printer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.bug.st/serial"
	"golang.org/x/sys/unix"
)

// Flow is how a serial printer says "wait". XON and XOFF in the return stream are
// always obeyed by Device, whatever the Flow.
type Flow string

// Hardware flow needs the printer's DTR wired to our CTS: Linux knows RTS/CTS only.
const (
	NoFlow       Flow = "none"
	HardwareFlow Flow = "rts-cts"
)

// Port is the line to the printer: a serial port, or the USB printer class
// (/dev/usb/lp0). Its reads and writes have real time limits, which the serial
// library lacks: there a printer that stops taking data holds a goroutine for
// ever, bytes written after Close reach whatever file got the descriptor, and a
// write broken by a hang-up reports no error. So all bytes go through an os.File,
// and the library, on a second descriptor, only sets the line.
//
// One goroutine may read while another writes. Close may be called from any, more
// than once, and ends both.
type Port struct {
	path  string
	file  *os.File
	line  serial.Port // nil where the device is not a serial line
	once  sync.Once
	close error
}

// OpenPort opens the device, follows links first so that both descriptors mean
// the same one, sets 8 data bits, no parity, one stop bit and the speed in baud,
// and drops what was received before. Errors name the cause a technician can act on.
func OpenPort(path string, baud int, flow Flow) (*Port, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("printer %s: %w", path, err)
	}
	file, err := os.OpenFile(target, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, openError(path, target, err)
	}
	p := &Port{path: path, file: file}
	if err := p.configure(target, baud, flow); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func openError(path, target string, err error) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("printer %s is held by another program (ModemManager, brltty, a spooler?): %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("printer %s: put the service's user into the group %s: %w", path, groupOf(target), err)
	default:
		return fmt.Errorf("printer %s: %w", path, err)
	}
}

// groupOf names the group that may open the device.
func groupOf(target string) string {
	info, err := os.Stat(target)
	if err != nil {
		return "dialout"
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "dialout"
	}
	id := strconv.FormatUint(uint64(stat.Gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

func (p *Port) configure(target string, baud int, flow Flow) error {
	if err := p.file.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("printer %s: this file has no time limits, so it is no printer: %w", p.path, err)
	}
	if !p.isLine() {
		return nil
	}
	line, err := serial.Open(target, &serial.Mode{BaudRate: baud, DataBits: 8, Parity: serial.NoParity, StopBits: serial.OneStopBit})
	if err != nil {
		return fmt.Errorf("printer %s at %d baud: %w", p.path, baud, err)
	}
	p.line = line
	if err := p.deaf(); err != nil {
		return fmt.Errorf("printer %s: input flags: %w", p.path, err)
	}
	if flow == HardwareFlow {
		if err := p.hardwareFlow(); err != nil {
			return fmt.Errorf("printer %s: RTS/CTS: %w", p.path, err)
		}
	}
	if err := line.ResetInputBuffer(); err != nil {
		return fmt.Errorf("printer %s: drop old input: %w", p.path, err)
	}
	return nil
}

// control runs f on the descriptor, which stays open for as long as f runs.
func (p *Port) control(f func(fd int) error) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

func (p *Port) isLine() bool {
	return p.control(func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	}) == nil
}

// deaf passes over a BREAK and over bytes whose frame is broken. A printer that is switched
// off lets its line sink, and the byte 0 that is made of it would be an answer to GS r.
func (p *Port) deaf() error {
	return p.control(func(fd int) error {
		settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		settings.Iflag |= unix.IGNBRK | unix.IGNPAR
		return unix.IoctlSetTermios(fd, unix.TCSETS, settings)
	})
}

// hardwareFlow is set after the library's own settings, which always clear it.
func (p *Port) hardwareFlow() error {
	return p.control(func(fd int) error {
		settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return err
		}
		settings.Cflag |= unix.CRTSCTS
		return unix.IoctlSetTermios(fd, unix.TCSETS, settings)
	})
}

// Read waits for bytes from the printer. A hang-up is an error, never 0 and nil.
func (p *Port) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	if n == 0 && err == nil && len(b) > 0 {
		err = io.ErrNoProgress
	}
	if err != nil {
		return n, fmt.Errorf("read from printer %s: %w", p.path, err)
	}
	return n, nil
}

// Write hands b to the system until the deadline. Fewer bytes than len(b) always
// come with an error: os.ErrDeadlineExceeded where the printer takes no more.
func (p *Port) Write(b []byte, deadline time.Time) (int, error) {
	if err := p.file.SetWriteDeadline(deadline); err != nil {
		// OpenPort has seen that this file takes deadlines: it can only be closed.
		return 0, fmt.Errorf("write to printer %s: %w: %w", p.path, os.ErrClosed, err)
	}
	n, err := p.file.Write(b)
	if n < len(b) && err == nil {
		err = io.ErrShortWrite
	}
	if err != nil {
		return n, fmt.Errorf("write to printer %s, %d of %d bytes: %w", p.path, n, len(b), err)
	}
	return n, nil
}

// Drained waits until the system's own buffer is empty, asking every step, and
// says whether it is. It is not called printed: the bytes are in the printer's
// buffer at best.
func (p *Port) Drained(ctx context.Context, deadline time.Time, step time.Duration) (bool, error) {
	timer := time.NewTimer(step)
	defer timer.Stop()
	for {
		var left int
		err := p.control(func(fd int) (err error) {
			left, err = unix.IoctlGetInt(fd, unix.TIOCOUTQ)
			return err
		})
		switch {
		case errors.Is(err, unix.ENOTTY):
			return true, nil // the USB printer class has no such buffer
		case err != nil:
			return false, fmt.Errorf("printer %s: %w", p.path, err)
		case left == 0:
			return true, nil
		case !time.Now().Before(deadline):
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-timer.C:
			timer.Reset(step)
		}
	}
}

// passing is how long n bytes take over the line; the USB printer class has its
// own flow control and needs no wait.
func (p *Port) passing(n, baud int) time.Duration {
	if p.line == nil {
		return 0
	}
	return transfer(n, baud)
}

// Discard drops what the system still keeps for the printer.
func (p *Port) Discard() error {
	if p.line == nil {
		return nil
	}
	if err := p.line.ResetOutputBuffer(); err != nil {
		return fmt.Errorf("printer %s: drop unsent data: %w", p.path, err)
	}
	return nil
}

// Close gives the device back. It drops unsent data first: closing a line whose
// far end says "wait" would otherwise take up to 30 seconds.
func (p *Port) Close() error {
	p.once.Do(func() {
		var line error
		if p.line != nil {
			_ = p.line.ResetOutputBuffer() // fails when the device has gone, which is no matter here
			line = p.line.Close()
		}
		p.close = errors.Join(p.file.Close(), line)
	})
	return p.close
}
