package uplink

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/uplink/memnet"
)

// proxied is a proxy that reaches central by the road behind it, and what it was asked.
type proxied struct {
	behind *pipes
	answer string // in place of 200, "" for none

	mu    sync.Mutex // lanes come beside each other
	asked []string
}

// heard is what it was asked, in the order in which it came.
func (p *proxied) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *proxied) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	near, far := memnet.Pipe()
	go func() {
		defer far.Close()
		in := bufio.NewReader(far)
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.asked = append(p.asked, addr+" "+r.Method+" "+r.Host)
		p.mu.Unlock()
		if p.answer != "" {
			_, _ = io.WriteString(far, p.answer)
			return
		}
		to, err := p.behind.Dial(ctx, network, r.Host)
		if err != nil {
			_, _ = io.WriteString(far, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
			return
		}
		_, _ = io.WriteString(far, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(to, in); _ = to.Close() }()
		_, _ = io.Copy(far, to)
	}()
	return near, nil
}

// TestTerminalReachesCentralThroughAProxyThatReadsNothing: it is enrolled and tells its
// journal by way of the proxy, which is asked for central's host and sees TLS.
func TestTerminalReachesCentralThroughAProxyThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, road, text := offline(t)
		p := &proxied{behind: road}
		dial, err := ThroughProxy("http://proxy.test:3128", p.Dial)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		id := must(EnrolFromFile(FileOptions{Text: []byte(text), Dir: filepath.Join(dir, "identity")}))
		l := begin(t, dir, id, nil, dial)
		l.pay(1)
		pass(time.Minute)
		if s := l.uplink.Status(); len(s.Faults) != 0 || s.Unsent != 0 || s.Expires.IsZero() {
			t.Fatalf("%+v", s)
		}
		if asked := p.heard(); len(asked) == 0 || asked[0] != "proxy.test:3128 CONNECT central.test:443" {
			t.Errorf("the proxy was asked %q", asked)
		}
	})
}

func TestProxyThatRefusesOrSpeaksFirstIsNamed(t *testing.T) {
	for name, answer := range map[string]string{"wants a password": "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "speaks first": "HTTP/1.1 200 OK\r\n\r\nhello", "no proxy": "SSH-2.0-x\r\n", "nothing": " "} {
		p := &proxied{answer: answer}
		dial, err := ThroughProxy("http://proxy.test:3128", p.Dial)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dial(t.Context(), "tcp", "central.test:443")
		if err == nil || conn != nil {
			t.Errorf("%s: %v", name, conn)
		}
		if (name == "wants a password" || name == "speaks first") && !errors.Is(err, ErrProxy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"proxy.test:3128", "https://proxy.test:3128", "http://proxy.test", "http://a:b@proxy.test:1", "http://proxy.test:1/x"} {
		if _, err := ThroughProxy(bad, nil); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestSilentProxyIsGivenUp, and so is the wait when the caller does not want it any more.
func TestSilentProxyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(context.Context, string, string) (net.Conn, error) {
			near, far := memnet.Pipe()
			go func() { _, _ = io.Copy(io.Discard, far) }()
			return near, nil
		}
		dial, err := ThroughProxy("http://proxy.test:3128", silent)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := dial(t.Context(), "tcp", "central.test:443"); err == nil || time.Since(began) != proxyTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := dial(ctx, "tcp", "central.test:443"); err == nil || time.Since(began) != time.Second {
			t.Errorf("not wanted any more, after %v: %v", time.Since(began), err)
		}
	})
}
