package scanner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

const (
	maxQueue   = 16          // commands that wait; more come only from a fault
	writeLimit = time.Second // for the port to take a frame of some bytes
	drainLimit = 100 * time.Millisecond
)

// request is a command on its way to the goroutine that owns the port.
type request struct {
	command   Command
	argument  string
	done      chan answer // of capacity 1; nil where nobody waits
	abandoned atomic.Bool
	first     bool // the connection's own
}

func (r *request) finish(a answer) {
	if r.done != nil {
		r.done <- a
	}
}

// Do has the scanner carry out a command and returns when it has answered, or, where
// its control has no answers, when the command is sent: within some 100 ms, plus the
// scanner's time, at most 6 s. The errors are ErrNotConnected, ErrUnsupported, ErrBusy,
// ErrRefused and ErrNoAnswer, or ctx's. Any goroutine may call it but the one that runs
// the functions given to Run, which would wait for itself: there Send is the one to use.
func (s *Scanner) Do(ctx context.Context, c Command) error {
	_, err := s.wait(ctx, &request{command: c, done: make(chan answer, 1)})
	return err
}

// Send is Do without waiting. It tells what is known at once, that the command cannot
// be sent; what becomes of it later is logged.
func (s *Scanner) Send(c Command) error {
	return s.enqueue(&request{command: c})
}

// Query asks a Honeywell scanner for the setting of a menu command, named by its six
// letters, and returns the value as text. The errors are those of Do.
func (s *Scanner) Query(ctx context.Context, setting string) (string, error) {
	return s.wait(ctx, &request{command: query, argument: setting, done: make(chan answer, 1)})
}

func (s *Scanner) wait(ctx context.Context, r *request) (string, error) {
	if err := s.enqueue(r); err != nil {
		return "", err
	}
	select {
	case a := <-r.done:
		return a.text, a.err
	case <-ctx.Done():
		r.abandoned.Store(true)
		return "", fmt.Errorf("scanner command %s: %w", r.command, context.Cause(ctx))
	}
}

// enqueue gives a request to the owner of the port, which alone touches it: nobody
// else could know that it is still open.
func (s *Scanner) enqueue(r *request) error {
	if !Supports(s.cfg.Control, r.command) {
		return fmt.Errorf("scanner command %s, control %s: %w", r.command, s.cfg.Control, ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.up:
		return fmt.Errorf("scanner command %s: %w", r.command, ErrNotConnected)
	case len(s.queue) >= maxQueue:
		return fmt.Errorf("scanner command %s: %w", r.command, ErrBusy)
	}
	s.queue = append(s.queue, r)
	return nil
}

// pickUp begins a connection. Its first command is Enable: the scanner may have been
// disabled by a program that ended before it could undo it.
func (s *Scanner) pickUp(at time.Time, stale int) {
	s.codec.opened(at, stale)
	s.off = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = true
	if Supports(s.cfg.Control, Enable) {
		s.queue = append(s.queue, &request{command: Enable, first: true})
	}
}

// hangUp ends a connection: what waited for it is refused. A scanner that was disabled
// is left enabled, if it still hears.
func (s *Scanner) hangUp(p port) {
	s.mu.Lock()
	waiting := s.queue
	s.up, s.queue = false, nil
	s.mu.Unlock()
	if s.pending != nil {
		waiting = append(waiting, s.pending)
		s.pending = nil
	}
	for _, r := range waiting {
		r.finish(answer{err: fmt.Errorf("scanner command %s: %w", r.command, ErrNotConnected)})
	}
	if !s.off {
		return
	}
	if frame, _, err := s.codec.frame(Enable, "", time.Now()); err == nil {
		if err := s.write(p, frame); err != nil {
			s.log.Debug("scanner left disabled", "err", err)
		}
		p.Drain(time.Now().Add(drainLimit)) // Close drops what has not left
	}
}

// command sends the next command that waits, unless one has no answer yet.
func (s *Scanner) command(p port) error {
	for s.pending == nil {
		r := s.next()
		if r == nil {
			return nil
		}
		if r.abandoned.Load() {
			continue
		}
		frame, answered, err := s.codec.frame(r.command, r.argument, time.Now())
		if err != nil {
			s.finish(r, answer{err: fmt.Errorf("scanner command %s: %w", r.command, err)})
			continue
		}
		if err := s.write(p, frame); err != nil {
			if errors.Is(err, ErrNoAnswer) {
				s.finish(r, answer{err: fmt.Errorf("scanner command %s: %w", r.command, err)})
				continue
			}
			s.finish(r, answer{err: fmt.Errorf("scanner command %s: %w: %w", r.command, ErrNotConnected, err)})
			return err
		}
		switch r.command {
		case Disable:
			s.off = true
		case Enable:
			s.off = false
		}
		if answered {
			s.pending = r
			return nil
		}
		s.finish(r, answer{})
	}
	return nil
}

func (s *Scanner) next() *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	r := s.queue[0]
	s.queue = s.queue[1:]
	return r
}

// finish gives a request its outcome. A scanner that never answers is named when the
// connection's first command finds it so: its control is set up wrongly.
func (s *Scanner) finish(r *request, a answer) {
	if a.err != nil && r.done == nil {
		s.log.Warn("scanner command", "command", r.command, "err", a.err)
	}
	if r.first && errors.Is(a.err, ErrNoAnswer) {
		f := newFault(CodeDeaf, "The scanner at "+s.cfg.Path+" answers no command of control "+s.cfg.Control+". Scan its set-up code for that interface, check the wire that leads to the scanner, or set control = \"none\": scans come all the same.", a.err)
		s.shown = f.Code
		s.state(State{Status: Faulty, Path: s.cfg.Path, Fault: f})
	}
	r.finish(a)
}

// write sends a frame. A scanner that takes no bytes gives ErrNoAnswer: the connection
// stands, since its scans may come all the same.
func (s *Scanner) write(p port, frame []byte) error {
	switch _, err := p.Write(frame, time.Now().Add(writeLimit)); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it took no bytes for %v: %w", writeLimit, ErrNoAnswer)
	case err != nil:
		return fmt.Errorf("write to scanner: %w", err)
	}
	return nil
}

// carry does what the codec made of the bytes, in order: a scan is handed on before
// it is acknowledged.
func (s *Scanner) carry(p port, out []output) error {
	for _, o := range out {
		s.handle(o.events)
		if len(o.write) > 0 {
			err := s.write(p, o.write)
			switch {
			case errors.Is(err, ErrNoAnswer):
				s.log.Warn("scanner acknowledgement", "err", err) // it will send the packet again
			case err != nil:
				return err
			}
		}
		if o.answer != nil && s.pending != nil {
			r := s.pending
			s.pending = nil
			s.finish(r, *o.answer)
		}
	}
	return nil
}
