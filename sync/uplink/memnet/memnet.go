// Package memnet is a network in memory for tests that run in a testing/synctest bubble.
// Its connections have buffers, as a system's have. With net.Pipe, which has none, a TLS
// connection's last word waits for its reader; net/http closes connections with a lock
// held, whoever wants that lock then waits in a way that holds the bubble's time, and the
// reader may wait for that time. No program links it. Start at [Pipe] or [Listen].
package memnet

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// buffer is what lies in one direction before a writer waits, bytes.
	buffer = 64 << 10
	// word is what is taken without waiting all the same: an alert of TLS is 24 to 31 bytes.
	word = 64
)

// Conn is one end of a connection in memory. Its methods may be called at once.
type Conn struct {
	*pair
	me int
}

type pair struct {
	mu   sync.Mutex
	some sync.Cond // something has changed
	cut  bool
	dead bool // nothing arrives any more
	end  [2]struct {
		in     []byte // sent by the other end, not yet read
		closed bool
		by     [2]time.Time // the deadlines of read and write
		alarm  [2]*time.Timer
	}
}

// Pipe gives the two ends of a connection. What is written to one and fits the buffer is
// taken at once; it can be read from the other end even when this one was closed since.
func Pipe() (near, far *Conn) {
	p := &pair{}
	p.some.L = &p.mu
	return &Conn{p, 0}, &Conn{p, 1}
}

const reading, writing = 0, 1

// late tells whether an end's deadline has passed. The lock is held.
func (c *Conn) late(way int) bool {
	by := c.end[c.me].by[way]
	return !by.IsZero() && !time.Now().Before(by)
}

// Read gives what has come, io.EOF after the last of a connection that the other end has
// closed, and ECONNRESET after a cut.
func (c *Conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	me, other := &c.end[c.me], &c.end[1-c.me]
	for {
		switch {
		case me.closed:
			return 0, fault("read", net.ErrClosed)
		case c.late(reading):
			return 0, fault("read", os.ErrDeadlineExceeded)
		case c.cut:
			return 0, fault("read", syscall.ECONNRESET)
		case len(b) == 0:
			return 0, nil
		case len(me.in) > 0:
			n := copy(b, me.in)
			me.in = me.in[n:]
			c.some.Broadcast()
			return n, nil
		case other.closed && !c.dead:
			return 0, io.EOF
		}
		c.some.Wait()
	}
}

// Write sends b. It waits while the buffer is full, until the write deadline.
func (c *Conn) Write(b []byte) (sent int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	me, other := &c.end[c.me], &c.end[1-c.me]
	for {
		room := buffer - len(other.in)
		if len(b) <= word {
			room = word
		}
		switch {
		case me.closed:
			return sent, fault("write", net.ErrClosed)
		case c.late(writing):
			return sent, fault("write", os.ErrDeadlineExceeded)
		case c.cut:
			return sent, fault("write", syscall.ECONNRESET)
		case other.closed && !c.dead:
			return sent, fault("write", syscall.EPIPE)
		case sent == len(b):
			return sent, nil
		case room > 0:
			n := min(room, len(b)-sent)
			if !c.dead {
				other.in = append(other.in, b[sent:sent+n]...)
			}
			sent += n
			c.some.Broadcast()
		default:
			c.some.Wait()
		}
		if sent == len(b) {
			return sent, nil
		}
	}
}

// Close ends this end; the other one reads what was sent and then io.EOF.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end[c.me].closed = true
	for _, t := range c.end[c.me].alarm {
		if t != nil {
			t.Stop()
		}
	}
	c.some.Broadcast()
	return nil
}

// Cut breaks the connection as a pulled cable does: what is under way is lost, and both
// ends are told.
func (c *Conn) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	c.end[0].in, c.end[1].in = nil, nil
	c.some.Broadcast()
}

// Silence loses whatever is sent from now on, and tells neither end: a router that forgot
// the connection, a radio out of reach.
func (c *Conn) Silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *Conn) deadline(way int, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	me := &c.end[c.me]
	if me.closed {
		return fault("set", net.ErrClosed)
	}
	if me.alarm[way] != nil {
		me.alarm[way].Stop()
	}
	me.by[way], me.alarm[way] = t, nil
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		me.alarm[way] = time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.some.Broadcast()
		})
	}
	c.some.Broadcast()
	return nil
}

// SetDeadline sets when reads and writes give up with os.ErrDeadlineExceeded.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.deadline(reading, t); err != nil {
		return err
	}
	return c.deadline(writing, t)
}

// SetReadDeadline sets when reads give up.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadline(reading, t) }

// SetWriteDeadline sets when writes give up.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.deadline(writing, t) }

// LocalAddr has no meaning here.
func (c *Conn) LocalAddr() net.Addr { return address }

// RemoteAddr has no meaning here.
func (c *Conn) RemoteAddr() net.Addr { return address }

var address = &net.UnixAddr{Name: "memory", Net: "memory"}

func fault(op string, err error) error {
	return &net.OpError{Op: op, Net: address.Net, Addr: address, Err: err}
}

// Listener takes the connections that Dial makes.
type Listener struct {
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Listen gives a listener.
func Listen() *Listener {
	return &Listener{waiting: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects with who accepts here. It fails with ECONNREFUSED when the listener is
// closed, and with ctx's error.
func (l *Listener) Dial(ctx context.Context) (*Conn, error) {
	near, far := Pipe()
	return near, l.Offer(ctx, far)
}

// Offer gives the far end of a connection to who accepts, for tests that wrap it.
func (l *Listener) Offer(ctx context.Context, far net.Conn) error {
	select {
	case l.waiting <- far:
		return nil
	case <-l.closed:
		return fault("dial", syscall.ECONNREFUSED)
	case <-ctx.Done():
		return fault("dial", ctx.Err())
	}
}

// Accept gives the next connection, and net.ErrClosed after Close.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, fault("accept", net.ErrClosed)
	}
}

// Close ends Accept and refuses who dials. What was accepted lives on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr has no meaning here.
func (l *Listener) Addr() net.Addr { return address }
