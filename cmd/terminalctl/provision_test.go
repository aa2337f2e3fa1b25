package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"grattoir/firmware/provision"
	"grattoir/sync/central"
)

// centre VAR DIR serves a real central on DIR until the script ends, its address in $VAR.
func centre(ts *testscript.TestScript, _ bool, args []string) {
	c, err := central.Open(context.Background(), central.Options{Dir: ts.MkAbs(args[1])})
	ts.Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	s := &http.Server{Handler: c.API(), ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(l, c.TLSConfig())) }()
	ts.Setenv(args[0], "https://"+l.Addr().String())
	ts.Defer(func() {
		c.EndPolls()
		_ = s.Close()
		<-served
		_ = c.Close()
	})
}

// trusts DIR PUB has the central of DIR trust a key that signs blocks.
func trusts(ts *testscript.TestScript, _ bool, args []string) {
	c, err := central.Open(context.Background(), central.Options{Dir: ts.MkAbs(args[0])})
	ts.Check(err)
	_, err = c.TrustSealKey(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(errors.Join(err, c.Close()))
}

// hostname VAR sets $VAR to the name of a terminal that this machine's name fits: a test
// gives the machine no other.
func hostname(ts *testscript.TestScript, _ bool, args []string) {
	name, err := os.Hostname()
	ts.Check(err)
	if provision.HostName(name) != name {
		ts.Fatalf("the machine's name %q is none that a terminal may have", name)
	}
	ts.Setenv(args[0], name)
}

// benched DIR NAME waits until central has heard that a terminal left the bench in order.
func benched(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := central.Open(ctx, central.Options{Dir: ts.MkAbs(args[0])})
	ts.Check(err)
	defer c.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := c.Benches(ctx, args[1])
		if ts.Check(err); len(list) > 0 && list[0].Bench.OK {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("central has heard of no bench of %s", args[1])
		}
	}
}

// mode PERM FILE holds a file's permissions against PERM, in octal.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// edit FILE OLD NEW changes a file as somebody with an editor does.
func edit(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	if !strings.Contains(string(text), args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, []byte(strings.Replace(string(text), args[1], args[2], 1)), 0o644))
}
