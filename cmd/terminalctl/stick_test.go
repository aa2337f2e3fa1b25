package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"grattoir/sync/central"
	"grattoir/sync/uplink"
)

// enrolled NAME CENTRAL DATA enrols a terminal at the central of a folder, over the network
// of this machine, and keeps its identity under the data folder.
func enrolled(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	c, err := central.Open(ctx, central.Options{Dir: ts.MkAbs(args[1])})
	ts.Check(err)
	code, err := c.AddTerminal(ctx, args[0])
	ts.Check(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	s := &http.Server{Handler: c.API()}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(l, c.TLSConfig())) }()
	_, err = uplink.Enrol(ctx, uplink.EnrolOptions{URL: "https://" + l.Addr().String(), Code: code.Code, Dir: filepath.Join(ts.MkAbs(args[2]), "identity")})
	ts.Check(errors.Join(err, s.Close()))
	<-served
	ts.Check(c.Close())
}
