package faultproxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// echo sends back what it gets.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// TestProxyDoesWhatItIsToldToTheByte: a harness that does not fail proves nothing.
func TestProxyDoesWhatItIsToldToTheByte(t *testing.T) {
	const text = "0123456789"
	for name, c := range map[string]struct {
		faults Faults
		want   string // what comes back
		ends   bool   // by itself
	}{
		"nothing":     {Faults{}, text, false},
		"far off":     {Faults{Up: Direction{Act: Cut, After: 11}}, text, false},
		"cut up":      {Faults{Up: Direction{Act: Cut, After: 4}}, "", true}, // what was on its way back may be lost too
		"cut down":    {Faults{Down: Direction{Act: Cut, After: 3}}, "012", true},
		"cut at once": {Faults{Down: Direction{Act: Cut}}, "", true},
		"reset":       {Faults{Down: Direction{Act: Reset, After: 0}}, "", true},
		"stall up":    {Faults{Up: Direction{Act: Stall, After: 4}}, "0123", false},
		"stall down":  {Faults{Down: Direction{Act: Stall, After: 2}}, "01", false},
		"slow":        {Faults{Down: Direction{Rate: 100}}, text, false},
		"refused":     {Faults{Refuse: true}, "", true},
		"a portal":    {Faults{Portal: "HTTP/1.1 200 OK\r\n\r\n"}, "HTTP/1.1 200 OK\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(t, echo(t))
			p.Set(c.faults)
			conn, err := net.Dial("tcp", p.Addr())
			if err != nil && c.ends {
				return // it was reset while it was made
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := time.Now()
			_, _ = io.WriteString(conn, text)
			got := make([]byte, max(len(text), len(c.want)))
			wait := 10 * time.Second
			if !c.ends && len(c.want) < len(text) {
				wait = 200 * time.Millisecond // nothing more may come
			}
			if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
				t.Fatal(err)
			}
			n, err := io.ReadFull(conn, got)
			if back := string(got[:n]); !strings.HasPrefix(text, back) && back != c.want || c.want != "" && back != c.want {
				t.Errorf("%q came back, want %q", back, c.want)
			}
			if timeout, ok := err.(net.Error); c.ends && ok && timeout.Timeout() {
				t.Errorf("it did not end: %v", err)
			}
			if took := time.Since(began); name == "slow" && took < 80*time.Millisecond {
				t.Errorf("10 bytes at 100 a second took %v", took)
			}
			if p.Made() != 1 {
				t.Errorf("%d connections", p.Made())
			}
			struck := 1
			if c.want == text {
				struck = 0
			}
			if p.Struck() != struck {
				t.Errorf("struck %d times, want %d", p.Struck(), struck)
			}
			if up, down := p.Most(); c.want == text && (up != int64(len(text)) || down != up) {
				t.Errorf("carried %d up and %d down", up, down)
			}
		})
	}
}
