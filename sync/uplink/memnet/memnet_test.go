package memnet

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

// TestConnIsANetConn: what the Go team asks of every net.Conn.
func TestConnIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := Pipe()
		return a, b, func() { _ = a.Close(); _ = b.Close() }, nil
	})
}

// TestWhatWasSentIsReadAfterTheSenderClosed, and nothing of it after a cut.
func TestWhatWasSentIsReadAfterTheSenderClosed(t *testing.T) {
	for _, cut := range []bool{false, true} {
		near, far := Pipe()
		if n, err := near.Write([]byte("good-bye")); n != 8 || err != nil {
			t.Fatal(n, err)
		}
		_ = near.Close()
		if cut {
			near.Cut()
		}
		got, err := io.ReadAll(far)
		if cut && (!errors.Is(err, syscall.ECONNRESET) || len(got) != 0) || !cut && (err != nil || string(got) != "good-bye") {
			t.Errorf("cut %v: %q, %v", cut, got, err)
		}
		if _, err := far.Write([]byte("x")); err == nil {
			t.Errorf("cut %v: a write to nobody is taken", cut)
		}
	}
}

// TestWriterWaitsForAReaderThatIsBehind, but not to say good-bye.
func TestWriterWaitsForAReaderThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe()
		content := bytes.Repeat([]byte("0123456789"), buffer/5)
		var all sync.WaitGroup
		all.Go(func() {
			if n, err := near.Write(content); n != len(content) || err != nil {
				t.Error(n, err)
			}
			_ = near.Close()
		})
		synctest.Wait()
		if got := len(far.end[far.me].in); got != buffer {
			t.Errorf("%d bytes are under way", got)
		}
		if _, err := near.Write(make([]byte, word)); err != nil {
			t.Error(err)
		}
		got, err := io.ReadAll(far)
		if err != nil || len(got) != len(content)+word {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		all.Wait()
	})
}

// TestClosingAServerBesideABusyReaderDoesNotStopTheTime: the reader comes back after a
// second of the bubble's time, and the server's end is closed with net/http's lock held
// meanwhile. With a pipe that has no buffer the time stands still here, for ever.
func TestClosingAServerBesideABusyReaderDoesNotStopTheTime(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		l := Listen()
		idle := make(chan struct{}, 1)
		server := &http.Server{Handler: http.NotFoundHandler(), ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateIdle {
				idle <- struct{}{}
			}
		}}
		var all sync.WaitGroup
		all.Go(func() {
			_ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true}))
		})
		raw, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter here
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		<-idle
		all.Go(func() { _ = server.Close() })
		all.Go(func() { _ = server.Close() }) // wants the lock that the other one holds
		time.Sleep(time.Second)
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("the last word: %v", err)
		}
		_ = c.Close()
		all.Wait()
	})
}
