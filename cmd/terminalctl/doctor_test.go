package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/cmd/internal/cli"
	"grattoir/device/health"
)

// TestDaemonThatDoesNotAnswerMayHaveTheDevices: only a socket at which nobody listens says
// that the daemon is down; what hangs, breaks off or may not be asked does not.
func TestDaemonThatDoesNotAnswerMayHaveTheDevices(t *testing.T) {
	dir := t.TempDir()
	p := &patient{configPath: filepath.Join(dir, "none.toml"), socket: filepath.Join(dir, "s")}
	if p.meet(t.Context()); p.daemon != health.DaemonDown {
		t.Errorf("no socket: %s, %v", p.daemon, p.silence)
	}
	l, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // breaks off whatever it is asked
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	if p.meet(t.Context()); p.daemon != health.DaemonSilent || p.silence == nil {
		t.Errorf("a daemon that breaks off: %s, %v", p.daemon, p.silence)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	<-ended
	if p.meet(t.Context()); p.daemon != health.DaemonDown {
		t.Errorf("a socket that was left behind: %s, %v", p.daemon, p.silence)
	}
	if err := os.Remove(p.socket); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.socket = filepath.Join(p.socket, "below-a-file")
	if p.meet(t.Context()); p.daemon != health.DaemonSilent {
		t.Errorf("a socket that cannot be reached: %s, %v", p.daemon, p.silence)
	}
}

// TestReportEndsWithTheStatusThatScriptsRead: findings are 3, nothing found but not all
// seen is 1.
func TestReportEndsWithTheStatusThatScriptsRead(t *testing.T) {
	unseen := health.Config("x", fs.ErrPermission)
	for _, test := range []struct {
		name   string
		checks []health.Check
		want   int
		last   string
	}{
		{"well", []health.Check{health.Config("x", nil)}, cli.Done, "all is well: 1 check\n"},
		{"unseen", []health.Check{health.Config("x", nil), unseen}, cli.Failed, "nothing found, but 1 of 2 could not be seen\n"},
		{"finding and unseen", []health.Check{unseen, health.Daemon(health.DaemonDown, "s", nil)}, cli.Person, "1 to look at, of 2\n"},
		{"not there", []health.Check{health.Pins(0, nil)}, cli.Done, "all is well: 1 check\n"},
	} {
		var r health.Report
		r.Add(test.checks...)
		got := cli.Done
		if coded, is := errors.AsType[*cli.Error](reportCode(r)); is {
			got = coded.Code
		}
		var out strings.Builder
		if err := printReport(&out, r); err != nil || got != test.want || !strings.HasSuffix(out.String(), test.last) {
			t.Errorf("%s: status %d, %v\n%s", test.name, got, err, out.String())
		}
	}
}
