package scanner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.bug.st/serial"
	"golang.org/x/sys/unix"
)

// port is a serial line as this package uses it.
type port interface {
	// Read waits at most the time-out of SetReadTimeout, and then returns 0, nil.
	Read(p []byte) (int, error)
	SetReadTimeout(t time.Duration) error
	// Write returns with an error when it could not hand over all of p by the deadline.
	Write(p []byte, deadline time.Time) (int, error)
	// Drain waits until what was written has left the system, at most to the deadline.
	Drain(deadline time.Time)
	Close() error
}

// linePort carries the bytes on a descriptor of its own; the serial library sets the
// line on a second one. The library reads by select, whose table ends at descriptor
// 1023, and its Write has no deadline, so that a scanner that takes no more would
// hold the goroutine that reads the scans.
type linePort struct {
	file    *os.File
	line    serial.Port
	timeout time.Duration
	once    sync.Once
	close   error
}

// openPort follows links first, so that both descriptors mean the same device.
func openPort(path string, mode *serial.Mode) (port, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(target, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := file.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("it takes no time limits, so it is no serial line: %w", err), file.Close())
	}
	line, err := serial.Open(target, mode)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &linePort{file: file, line: line}, nil
}

func (p *linePort) SetReadTimeout(t time.Duration) error {
	p.timeout = t
	return nil
}

func (p *linePort) Read(b []byte) (int, error) {
	if err := p.file.SetReadDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	n, err := p.file.Read(b)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, nil
	case n == 0 && err == nil && len(b) > 0:
		return 0, io.ErrNoProgress
	}
	return n, err // io.EOF is a hang-up
}

func (p *linePort) Write(b []byte, deadline time.Time) (int, error) {
	if err := p.file.SetWriteDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := p.file.Write(b)
	if n < len(b) && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}

func (p *linePort) Drain(deadline time.Time) {
	for p.unsent() > 0 && time.Now().Before(deadline) {
		time.Sleep(drainStep)
	}
}

// unsent is how many bytes the system still keeps for the scanner.
func (p *linePort) unsent() int {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return 0
	}
	left := 0
	if err := raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); err != nil {
		return 0
	}
	return left
}

const drainStep = 2 * time.Millisecond // two bytes at 9600 baud

// Close drops what was not sent: closing a line whose far end says "wait" would
// otherwise take up to 30 seconds.
func (p *linePort) Close() error {
	p.once.Do(func() {
		if p.unsent() > 0 {
			_ = p.line.ResetOutputBuffer() // fails when the device has gone, which is no matter here
		}
		p.close = errors.Join(p.line.Close(), p.file.Close())
	})
	return p.close
}
