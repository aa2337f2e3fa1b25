package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestDaemonTellsItsManagerThatItIsReadyAliveAndEnding: the unit's Type=notify and WatchdogSec
// have no other way to know.
func TestDaemonTellsItsManagerThatItIsReadyAliveAndEnding(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "150000")
	s := openShop(t)
	s.start(t)
	await := func(want string, skip string) {
		t.Helper()
		buf := make([]byte, 64)
		for {
			if err := manager.SetReadDeadline(time.Now().Add(60 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := manager.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if got := string(buf[:n]); got == want {
				return
			} else if got != skip {
				t.Fatalf("said %s: want %s", got, want)
			}
		}
	}
	await("READY=1", "")
	await("WATCHDOG=1", "")
	await("WATCHDOG=1", "")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	await("STOPPING=1", "WATCHDOG=1")
}
