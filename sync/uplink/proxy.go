package uplink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ErrProxy means that a proxy on the way to central does not let the terminal through.
var ErrProxy = errors.New("the proxy does not let the terminal through")

// proxyTimeout is how long a proxy may take to connect.
const proxyTimeout = 30 * time.Second

// ThroughProxy makes connections by way of an HTTP proxy (CONNECT). The proxy sees which
// host the terminal wants and carries TLS that it cannot read: central proves itself
// behind it as without it. Dial connects to the proxy, nil for the network.
func ThroughProxy(proxy string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	u, err := url.Parse(proxy)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.User != nil || u.Path != "" {
		return nil, fmt.Errorf("proxy %.80q: want http://HOST:PORT", proxy)
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, u.Host)
		if err != nil {
			return nil, fmt.Errorf("proxy %s: %w", u.Host, err)
		}
		if err := connect(ctx, conn, addr); err != nil {
			return nil, errors.Join(fmt.Errorf("proxy %s: %w", u.Host, err), conn.Close())
		}
		return conn, nil
	}, nil
}

// connect asks the proxy for a way to addr and reads its answer, not a byte more: what
// follows is TLS, in which the terminal speaks first.
func connect(ctx context.Context, conn net.Conn, addr string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(proxyTimeout)); err != nil {
		return err
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if err := request.Write(conn); err != nil {
		return err
	}
	in := bufio.NewReaderSize(conn, 4096)
	answer, err := http.ReadResponse(in, request)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: it answers %s", ErrProxy, answer.Status)
	case in.Buffered() > 0:
		return fmt.Errorf("%w: it speaks before it is spoken to", ErrProxy)
	}
	if !stop() { // the context ended, and its deadline may come after this one
		return context.Cause(ctx)
	}
	return conn.SetDeadline(time.Time{})
}
