package printer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// attempts is how often a status request is sent before the printer counts as silent.
const attempts = 3

// link is one connection: the port, and what came back over it. Its reader always
// reads, also while a write is stuck: some printers stop taking data when nobody
// takes theirs. Writing is for one goroutine only, the owner.
type link struct {
	port *Port
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change of what follows
	parser  Parser
	sensors sensors
	asked   byte    // n of the last DLE EOT
	owed    int     // requests for it that have no answer yet
	heard   uint64  // answers to DLE EOT
	sensed  uint64  // answers to GS r
	printed [4]byte // last process id
	cleared uint64  // answers to the request to clear
	stopped bool    // between XOFF and XON
	idle    int     // looks at rest since XOFF
	err     error   // what ended the connection

	mute   [5]bool // DLE EOT n was never answered: owner only
	spoken [5]bool // it was: owner only
	gaveUp bool    // three requests without an answer, and none before
}

func newLink(port *Port) *link {
	l := &link{port: port, done: make(chan struct{}), changed: make(chan struct{})}
	go l.read()
	return l
}

func (l *link) read() {
	defer close(l.done)
	buf := make([]byte, 256)
	for {
		n, err := l.port.Read(buf)
		l.mu.Lock()
		l.parser.Feed(buf[:n], l.take)
		if err != nil {
			l.err = err
		}
		l.tell()
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// tell wakes who waits for a change. The lock is held.
func (l *link) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// take notes one answer. The lock is held.
func (l *link) take(a Answer) {
	switch a.Kind {
	case RealTime:
		if l.owed == 0 {
			return // nobody asked: it cannot be told which n this is
		}
		l.owed--
		l.heard++
		l.sensors.realTime(l.asked, a.Bytes[0])
	case Automatic:
		l.sensors.automatic(a.Bytes)
	case Sensor:
		l.sensed++
	case ProcessID:
		l.printed = a.ID()
	case Cleared:
		l.cleared++
	case XOff:
		l.stopped, l.idle = true, 0
	case XOn:
		l.stopped = false
	}
}

// await waits until reached, which runs under the lock, says true. It says false
// at the time limit, at the end of ctx and when the connection is lost.
func (l *link) await(ctx context.Context, limit time.Duration, reached func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		l.mu.Lock()
		ok, lost, changed := reached(), l.err != nil, l.changed
		l.mu.Unlock()
		if ok || lost {
			return ok
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (l *link) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// fault is the worst the printer says of itself, or nil.
func (l *link) fault() *Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sensors.fault()
}

// fatal says that the printer has an error that it cannot clear itself.
func (l *link) fatal() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sensors.fatal
}

// ask sends DLE EOT n and waits for its answer, once. An answer does not say
// which n it belongs to, so another n is asked only when none is due any more, or
// when the due one has had its time again: late answers must not be taken for
// answers to the wrong question (bit 2 is the drawer in one and the cover in another).
func (l *link) ask(ctx context.Context, n byte, limit time.Duration) error {
	l.mu.Lock()
	different := l.asked != n && l.owed > 0
	l.mu.Unlock()
	if different {
		l.await(ctx, limit, func() bool { return l.owed == 0 })
	}
	l.mu.Lock()
	if l.asked != n {
		l.asked, l.owed = n, 0
	}
	l.owed++
	before := l.heard
	l.mu.Unlock()
	if _, err := l.port.Write(statusRequest(n), time.Now().Add(limit)); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		return err
	}
	if l.await(ctx, limit, func() bool { return l.heard != before }) {
		return nil
	}
	if err := l.lost(); err != nil {
		return err
	}
	return errNoAnswer
}

// survey asks all four statuses. It returns errNoAnswer for a printer that stays
// silent, and another error when the connection is lost. trusted says that the
// model is known to answer all four; otherwise one that was never answered is
// not asked again: clones often know 1 and 4 only.
func (l *link) survey(ctx context.Context, limit time.Duration, trusted bool) error {
	for n := byte(1); n <= 4; n++ {
		if l.mute[n] {
			continue
		}
		err := l.insist(ctx, n, limit)
		switch {
		case err == nil:
			l.spoken[n] = true
		case n > 1 && !trusted && !l.spoken[n] && errors.Is(err, errNoAnswer) && ctx.Err() == nil:
			l.mute[n] = true
		default:
			return err
		}
	}
	return nil
}

// insist asks status n until it is answered, three times at most.
func (l *link) insist(ctx context.Context, n byte, limit time.Duration) (err error) {
	for range attempts {
		if err = l.ask(ctx, n, limit); !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// forgive forgets an XOFF that the printer has not taken back though it is well and at
// rest: three looks long nothing was sent, so its buffer cannot be full. A printer that was
// switched off and on says no XON. It tells whether it did.
func (l *link) forgive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		l.idle++
	}
	if l.idle < 3 {
		return false
	}
	l.stopped, l.idle = false, 0
	return true
}

// empty forgets an XOFF: what is in the printer was dropped, so it cannot be full.
func (l *link) empty() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped, l.idle = false, 0
}

// clear drops what is in the printer's buffers and waits until it says so.
func (l *link) clear(ctx context.Context, limit time.Duration) error {
	l.mu.Lock()
	before := l.cleared
	l.mu.Unlock()
	if _, err := l.port.Write(clearRequest(), time.Now().Add(limit)); err != nil {
		return err
	}
	if l.await(ctx, limit, func() bool { return l.cleared != before }) {
		l.empty()
		return nil
	}
	if err := errors.Join(l.lost(), context.Cause(ctx)); err != nil {
		return err
	}
	return errors.New("the printer does not confirm that its buffer is empty")
}
