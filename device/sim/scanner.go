package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// sendLimit bounds a send to a driver that does not read. The kernel holds some
// kilobytes, so a scan always fits unless the driver is stuck.
const sendLimit = 2 * time.Second

// keptCommands bounds what is remembered of host commands, in bytes.
const keptCommands = 4096

// Scanner is a simulated barcode scanner on a pty, plugged in from the start.
// All methods may be called from any goroutine.
type Scanner struct {
	socket socket

	mu       sync.Mutex
	commands []byte
	framing  Framing
	tricks   []Trick // of the next scan
}

// NewScanner makes a scanner. Link, when not empty, is the path of a symbolic link
// to make (the by-id name of a real system); its folder is made too.
func NewScanner(link string) (*Scanner, error) {
	s := &Scanner{socket: socket{link: link}}
	if err := s.Replug(); err != nil {
		return nil, fmt.Errorf("simulated scanner: %w", err)
	}
	return s, nil
}

// Path is what the driver opens: the link, or without one the slave, whose name
// changes with each Replug.
func (s *Scanner) Path() string { return s.socket.where() }

// Scan sends a code as the scanner does out of the box in serial mode: the code
// and CR, unless its framing was changed, and goes wrong as Play asked. It returns when
// all is sent. Bytes sent while no program has the port open wait there, as stale data.
func (s *Scanner) Scan(code string) error {
	writes, unplug := s.frame(code)
	line := s.socket.current()
	for _, w := range writes {
		if w.pause > 0 && line != nil {
			t := time.NewTimer(w.pause)
			select {
			case <-t.C:
			case <-line.gone: // the rest meets the missing cable below
				t.Stop()
			}
		}
		if err := s.Send(w.bytes); err != nil {
			return err
		}
	}
	if unplug {
		return s.Unplug()
	}
	return nil
}

// Send sends bytes as they are, so that a test can cut, glue and damage them.
func (s *Scanner) Send(b []byte) error {
	line := s.socket.current()
	if line == nil {
		return fmt.Errorf("scanner: send %d bytes: %w", len(b), ErrUnplugged)
	}
	if err := line.write(b, sendLimit); err != nil {
		return fmt.Errorf("scanner: send %d bytes: %w", len(b), err)
	}
	return nil
}

// WaitOpen blocks until a program holds the port open. The driver may still be
// about to drop stale bytes: wait for its own "connected" before the first scan.
func (s *Scanner) WaitOpen(ctx context.Context) error { return s.socket.waitOpen(ctx) }

// Commands returns the last bytes the driver sent to the scanner, at most 4096.
func (s *Scanner) Commands() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// Unplug pulls the cable: the link vanishes, the driver's port hangs up, bytes not
// yet read are lost. It does nothing when the cable is out.
func (s *Scanner) Unplug() error { return s.socket.unplug() }

// Replug puts the cable back on a new pty. It does nothing when the cable is in.
func (s *Scanner) Replug() error { return s.socket.plug(s.listen) }

// listen keeps the driver's commands and so keeps the line free of them.
func (s *Scanner) listen(line *pty) {
	buf := make([]byte, 512)
	for {
		n, err := line.read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.commands = append(s.commands, buf[:n]...)
		if over := len(s.commands) - keptCommands; over > 0 {
			s.commands = slices.Delete(s.commands, 0, over)
		}
		s.mu.Unlock()
	}
}

// Close unplugs for good and returns when nothing of the scanner runs any more.
func (s *Scanner) Close() error { return s.socket.close() }
