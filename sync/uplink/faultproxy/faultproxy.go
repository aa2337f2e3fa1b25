// Package faultproxy is a TCP proxy for tests. It passes bytes on, and does to them what
// networks do: it cuts after a number of bytes, stalls in one direction, is slow, resets,
// refuses, or answers in the server's place as a portal does. No program links it. Start
// at New.
package faultproxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Act is what happens in a direction once its bytes have passed.
type Act int

// The acts. Cut and Reset end the connection in both directions, Stall leaves it open and
// swallows what comes in this one.
const (
	Pass Act = iota
	Cut
	Reset
	Stall
)

// Direction is what happens to one direction of a connection. The zero Direction passes
// everything.
type Direction struct {
	Act   Act
	After int64 // bytes that pass before
	Rate  int   // bytes a second, 0 for as fast as it goes
}

// Faults are what happens to a connection.
type Faults struct {
	Up, Down Direction // to the server, and from it
	Refuse   bool      // it is closed before a byte
	Portal   string    // it is answered with this text, and the server hears nothing
}

// Proxy stands before one server. It is safe for concurrent use.
type Proxy struct {
	to       string
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	faults Faults
	open   map[net.Conn]bool
	closed bool
	made   int
	struck int      // connections and directions that a fault has hit
	most   [2]int64 // bytes that came from a client and went to one, of the connection with most
	newest [2]int64 // the same of the newest connection
}

// New starts a proxy on a free port of the loopback, before a server at an address. It
// ends with the test.
func New(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{to: to, listener: l, open: map[net.Conn]bool{}}
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set says what happens to connections that are made from now on.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.most = f, [2]int64{}
}

// Drop ends all connections at once.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// Made is how many connections were made so far, and Carried the bytes of the newest one.
func (p *Proxy) Made() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// Carried is how many bytes the newest connection has carried.
func (p *Proxy) Carried() (up, down int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest[0], p.newest[1]
}

// Struck is how often a fault has hit: a connection that was refused, answered, cut or
// reset, a direction that was stalled.
func (p *Proxy) Struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.struck
}

// Most is how many bytes a connection has carried at most since the last Set, by
// direction, not all by the same connection.
func (p *Proxy) Most() (up, down int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most[0], p.most[1]
}

func (p *Proxy) strike() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.struck++
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Drop()
	p.done.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		f := p.faults
		p.made++
		n := p.made
		p.newest = [2]int64{}
		p.mu.Unlock()
		p.done.Go(func() { p.serve(c, f, n) })
	}
}

// keep notes a connection so that Drop finds it, and closes it when the proxy has ended.
func (p *Proxy) keep(c net.Conn) (forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
	}
	p.open[c] = true
	return func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
	}
}

func (p *Proxy) serve(client net.Conn, f Faults, n int) {
	defer p.keep(client)()
	switch {
	case f.Refuse:
		p.strike()
		return
	case f.Portal != "":
		p.strike()
		_, _ = client.Read(make([]byte, 4096))
		_, _ = io.WriteString(client, f.Portal)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer p.keep(server)()
	var ways sync.WaitGroup
	end := func(reset bool) {
		for _, c := range []net.Conn{client, server} {
			if t, ok := c.(*net.TCPConn); ok && reset {
				_ = t.SetLinger(0)
			}
			_ = c.Close()
		}
	}
	ways.Go(func() { p.carry(server, client, f.Up, n, 0, end) })
	ways.Go(func() { p.carry(client, server, f.Down, n, 1, end) })
	ways.Wait()
}

// carry passes one direction on until it ends or its act ends it.
func (p *Proxy) carry(to io.Writer, from io.Reader, d Direction, n, way int, end func(reset bool)) {
	buf := make([]byte, 16<<10)
	var passed int64
	swallowed := false
	for {
		if d.Act == Cut && passed >= d.After || d.Act == Reset && passed >= d.After {
			p.strike()
			end(d.Act == Reset)
			return
		}
		size := len(buf)
		if d.Act != Pass && passed < d.After {
			size = int(min(int64(size), d.After-passed))
		}
		if d.Rate > 0 {
			size = min(size, max(1, d.Rate/20))
		}
		k, err := from.Read(buf[:size])
		if d.Rate > 0 && k > 0 {
			<-time.After(time.Duration(k) * time.Second / time.Duration(d.Rate))
		}
		switch stalled := d.Act == Stall && passed >= d.After; {
		case stalled && k > 0 && !swallowed:
			swallowed = true
			p.strike()
		case !stalled && k > 0:
			p.note(n, way, passed+int64(k)) // before whoever gets them can ask
			if _, failed := to.Write(buf[:k]); failed != nil {
				err = errors.Join(err, failed)
			}
		}
		passed += int64(k)
		if err != nil {
			end(false)
			return
		}
	}
}

// note notes how much a direction of connection n has carried.
func (p *Proxy) note(n, way int, passed int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most[way] = max(p.most[way], passed)
	if n == p.made {
		p.newest[way] = passed
	}
}
