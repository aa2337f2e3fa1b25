package notify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// manager listens as systemd does, and names itself in the environment.
func manager(t *testing.T, usec, pid string) (*Manager, *net.UnixConn) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", usec)
	t.Setenv("WATCHDOG_PID", pid)
	return Find(), conn
}

func said(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 100)
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestManagerHearsReadyAndStopping(t *testing.T) {
	m, conn := manager(t, "", "")
	if err := errors.Join(m.Ready(), m.Stopping()); err != nil {
		t.Fatal(err)
	}
	if a, b := said(t, conn), said(t, conn); a != "READY=1" || b != "STOPPING=1" {
		t.Fatalf("said %q and %q", a, b)
	}
	if os.Getenv("NOTIFY_SOCKET") != "" {
		t.Error("a program that is started from here would speak for this one")
	}
}

func TestNobodyIsToldWhereNobodyAsked(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	m := Find()
	if err := m.Ready(); err != nil {
		t.Fatal(err)
	}
	m.Feed(t.Context(), func(context.Context) error { t.Error("asked for a sign of life"); return nil }, slog.New(slog.DiscardHandler))
	other, _ := manager(t, "3000000", strconv.Itoa(os.Getpid()+1))
	other.Feed(t.Context(), func(context.Context) error { t.Error("the sign is another program's to give"); return nil }, slog.New(slog.DiscardHandler))
}

// TestNoSignOfLifeWithoutAnAnswer: neither an error nor a check that hangs feeds the watchdog.
func TestNoSignOfLifeWithoutAnAnswer(t *testing.T) {
	m, conn := manager(t, "3000", strconv.Itoa(os.Getpid()))
	if m.every != time.Millisecond {
		t.Fatalf("a sign each %v: want three in 3 ms", m.every)
	}
	ctx, stop := context.WithCancel(t.Context())
	calls := 0
	alive := func(ctx context.Context) error {
		switch calls++; {
		case calls <= 2:
			return nil
		case calls < 5:
			return errors.New("the ledger does not answer")
		case calls < 8:
			<-ctx.Done() // it hangs
			return ctx.Err()
		}
		stop()
		return errors.New("the end")
	}
	m.Feed(ctx, alive, slog.New(slog.DiscardHandler))
	if err := m.Stopping(); err != nil {
		t.Fatal(err)
	}
	if a, b, c := said(t, conn), said(t, conn), said(t, conn); a != "WATCHDOG=1" || b != "WATCHDOG=1" || c != "STOPPING=1" {
		t.Fatalf("heard %q, %q, %q: want two signs of life and no more", a, b, c)
	}
}
